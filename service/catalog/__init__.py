"""Models on disk become models ready.

In: the repository folder, and beside each model what its owner configured (`model.toml`, Triton's `config.pbtxt`).
Out: every version as a state, with the open model or the reason why there is none. Never here: HTTP, and a
fault of one model that keeps the others from serving.
"""
