"""The service that one writes in ten minutes: Flask, `get_json`, `jsonify`. What this project has to be better than."""

from __future__ import annotations

import os

import numpy as np
import onnxruntime as ort
from flask import Flask, Response, jsonify, request

_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}

app = Flask(__name__)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(os.environ["BENCH_MODEL"], options, providers=["CPUExecutionProvider"])
dtypes = {spec.name: _DTYPES[spec.type] for spec in session.get_inputs()}
names = [spec.name for spec in session.get_outputs() if spec.type.startswith("tensor(")]


@app.post("/predict")
def predict() -> Response:
    """Runs the model on nested lists by input name."""
    inputs = request.get_json()["inputs"]
    feeds = {name: np.array(value, dtype=dtypes[name]) for name, value in inputs.items()}
    results = session.run(names, feeds)
    return jsonify(outputs={name: result.tolist() for name, result in zip(names, results, strict=True)})


@app.get("/v2/health/ready")
def ready() -> Response:
    """The session is open when this can be asked."""
    return jsonify(ready=True)
