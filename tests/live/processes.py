"""Models and requests for the scenarios that concern whole processes."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import onnx
import requests
from onnx import TensorProto, helper, numpy_helper

from tests.live.server import ROOT

CASE_MODEL = ROOT / "tests" / "cases" / "98-reload-under-load" / "model.onnx"
"""A perceptron of 64 numbers, the same in all process cases."""


def repository(folder, model, name="m", toml=""):
    """A folder with one model."""
    place = Path(folder) / name
    place.mkdir(parents=True)
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, place / "model.onnx")
    else:
        shutil.copyfile(model, place / "model.onnx")
    (place / "model.toml").write_text(toml)
    return Path(folder)


def infer(url, shape, name="m", *, tensor="x", value=0.01, datatype="FP32", **options):
    """A request over a connection of its own, as JSON; all elements are one value."""
    data = [value] * int(np.prod(shape, dtype=int))
    document = {"inputs": [{"name": tensor, "datatype": datatype, "shape": list(shape), "data": data}]}
    headers = {"Content-Type": "application/json", "Connection": "close"}
    return requests.post(f"{url}/v2/models/{name}/infer", json.dumps(document), headers=headers, timeout=10, **options)


def infer_raw(url, rows):
    """A request of 64 numbers a row as bytes, which costs the test less; the answer's numbers."""
    body = np.full((rows, 64), 0.01, "<f4").tobytes()
    headers = {"Inference-Header-Content-Length": "0"}
    response = requests.post(f"{url}/v2/models/m/infer", body, headers=headers, timeout=10)
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content[int(response.headers["Inference-Header-Content-Length"]) :], "<f4")


def data_of(response):
    assert response.status_code == 200, response.text
    return response.json()["outputs"][0]["data"]


def slow_model():
    """Takes as long as its input says, in rounds of a product of matrices; `rounds` comes back."""
    step = [
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("MatMul", ["state", "weights"], ["product"]),
        helper.make_node("Tanh", ["product"], ["next"]),
    ]
    square = [256, 256]
    body = helper.make_graph(
        step,
        "round",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, square),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, square),
        ],
    )
    nodes = [
        helper.make_node("Loop", ["rounds", "", "weights"], ["last"], body=body),
        helper.make_node("ReduceMax", ["last"], ["peak"], keepdims=0),
        helper.make_node("Cast", ["peak"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Mul", ["whole", "nothing"], ["zero"]),
        helper.make_node("Add", ["rounds", "zero"], ["done"]),
    ]
    weights = np.random.default_rng(1).standard_normal(square).astype(np.float32) / 16
    graph = helper.make_graph(
        nodes,
        "slow",
        [helper.make_tensor_value_info("rounds", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("done", TensorProto.INT64, [])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.array(0, np.int64), "nothing")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rounds_for(url, seconds):
    """How many rounds of the slow model take about so long here."""
    rounds = 500
    while True:
        start_s = time.monotonic()
        assert data_of(infer(url, [], tensor="rounds", datatype="INT64", value=rounds)) == [rounds]
        took_s = time.monotonic() - start_s
        if took_s > seconds / 4:
            return int(rounds * seconds / took_s)
        rounds *= 2


def doubled(path):
    """The model with its last weights doubled, so that its answers tell it from the first."""
    model = onnx.load(path)
    last = model.graph.initializer[-1]
    last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) * 2 + 1, last.name))
    return model.SerializeToString()


def replace_file(path, content):
    """As a careful deployment does: a new file, renamed over the old one."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def resident_bytes(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_alive(pid):
    """Whether it runs; a zombie doesn't."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def journal_pids(server):
    """Process ids of the workers that answered inferences, by the journal (PINION_REQUEST_LOG)."""
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith('{"time"')]
    return [line["pid"] for line in lines if line.get("model")]
