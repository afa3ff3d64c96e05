"""While a run of seconds is on, probes are answered and nothing is lost."""

import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live.server import Server

STEPS, SIZE = 25, 1024
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}], "outputs": [{"name": "y"}]}


@pytest.fixture(scope="module")
def slow_models(tmp_path_factory):
    """A model of many nodes whose run takes about a second, and one that takes microseconds."""
    folder = tmp_path_factory.mktemp("slow")
    nodes = [helper.make_node("Expand", ["x", "shape"], ["a0"])]
    nodes += [helper.make_node("MatMul", [f"a{step}", "w"], [f"a{step + 1}"]) for step in range(STEPS)]
    nodes += [helper.make_node("ReduceMean", [f"a{STEPS}"], ["y"], axes=[0, 1], keepdims=0)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    constants = [
        numpy_helper.from_array(np.eye(SIZE, dtype=np.float32), "w"),
        numpy_helper.from_array(np.array([SIZE, SIZE]), "shape"),
    ]
    graph = helper.make_graph(nodes, "slow", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "slow.onnx")
    return folder


def test_probes_are_answered_during_a_run(tmp_path, slow_models):
    answers = []
    with Server(tmp_path, models=slow_models, workers=1) as server:
        callers = [
            threading.Thread(target=lambda: answers.append(server.post("/v2/models/slow/infer", REQUEST)))
            for _ in range(3)
        ]
        for caller in callers:
            caller.start()
        time.sleep(0.1)
        waited_s = []
        while any(caller.is_alive() for caller in callers):
            for path in ("/v2/health/live", "/v2/health/ready", "/metrics", "/v2/models/stats", "/v2"):
                began_s = time.monotonic()
                assert server.status(path) == 200
                waited_s.append(time.monotonic() - began_s)
        run_s = server.json("/v2/models/slow/stats")["model_stats"][0]["inference_stats"]["compute_infer"]["ns"] / 3e9
    assert [status for status, _, _ in answers] == [200] * 3
    # No claim of speed: an answer that waits for the run would take as long as the run.
    assert len(waited_s) > 5
    assert sorted(waited_s)[len(waited_s) // 2] < run_s / 2
