"""Who may ask for what, how often, and the book of who did.

In: the head of a request, the operator's settings. Out: nothing, or the error that refuses it; lines of the audit.
Never here: a secret kept in clear, a route, a wait for a file or another process in the way of a request.
"""
