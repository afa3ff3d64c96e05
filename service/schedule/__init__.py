"""Who runs when.

In: tensors that fit a model, one ticket a request. Out: the ticket's own rows, or its own error. Never here:
bytes of a request, HTTP, the session's library.
"""
