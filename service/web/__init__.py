"""Where Flask lives: routes, intake, pages, and the way of an inference from its request to its answer.

In: a WSGI environ. Out: status, headers and body. Never here: sessions, files of the repository, processes.
"""
