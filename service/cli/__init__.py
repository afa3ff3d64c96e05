"""Commands for operators, one module each with a `main(arguments) -> exit status`.

In: the command line. Out: text for people, an exit status for scripts. Never here: what a running service needs.
"""
