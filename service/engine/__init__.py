"""Where ONNX Runtime lives, and nowhere else.

In: a model file, options, the number of threads of the lane. Out: a session that takes numpy arrays by name and
gives tensors, with its signature in the protocol's words. Never here: HTTP, JSON, files other than the model's.
"""
