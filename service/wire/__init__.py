"""Bytes to tensors and back, as pure functions.

In: bodies, headers' values, a model's signature. Out: arrays that fit it, or an error that names the place; and
the bytes of answers. Never here: sockets, Flask, sessions, files.
"""
