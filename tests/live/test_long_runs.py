"""While a run of seconds is on, probes are answered and nothing is lost."""

import contextlib
import json
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live.raw import Client, request
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


def infer_bytes():
    return request("POST", "/v2/models/slow/infer", json.dumps(REQUEST).encode())


def test_what_waits_for_runs_is_answered_however_long_it_takes(tmp_path, slow_models):
    """Patience with a client that sends is no limit for the service that computes."""
    patience = {"pinion_head_timeout_s": 0.5, "pinion_body_timeout_s": 0.5}
    with Server(tmp_path, models=slow_models, workers=1, **patience) as server, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(Client(server.port, timeout_s=60)) for _ in range(6)]
        for client in clients:
            client.send(infer_bytes())
        assert [client.answer().status for client in clients] == [200] * len(clients)


def test_thousands_of_pipelined_probes_during_a_run_are_answered_in_order(tmp_path, slow_models):
    count = 3000
    probes = b"".join(request("GET", path, None) for path in ("/v2/health/live", "/v2") * (count // 2))
    with Server(tmp_path, models=slow_models, workers=1) as server:
        with Client(server.port, timeout_s=60) as slow, Client(server.port, timeout_s=60) as eager:
            slow.send(infer_bytes())
            time.sleep(0.1)
            sender = threading.Thread(target=eager.send, args=(probes,))
            sender.start()
            bodies = [eager.answer().body for _ in range(count)]
            sender.join(30)
            assert len(set(bodies)) == 2
            assert bodies == bodies[:2] * (count // 2)
            assert slow.answer().status == 200
            # The watchdog lives on: metrics are its work.
            slow.send(infer_bytes())
            assert server.status("/metrics") == 200
            assert slow.answer().status == 200
        assert "Traceback" not in server.log()


@pytest.mark.parametrize("arguments", [(), ("-k", "gthread", "--threads", "8")], ids=["gather", "gthread"])
def test_a_request_that_waits_too_long_is_told_so_and_not_run(tmp_path, slow_models, arguments):
    toml = slow_models / "slow.toml"
    toml.write_text("timeout_s = 0.05\n")
    try:
        with Server(tmp_path, *arguments, models=slow_models, workers=1) as server, contextlib.ExitStack() as opened:
            clients = [opened.enter_context(Client(server.port, timeout_s=60)) for _ in range(3)]
            for client in clients:
                client.send(infer_bytes())
            answers = [client.answer() for client in clients]
            assert sorted(answer.status for answer in answers) == [200, 504, 504]
            late = next(answer for answer in answers if answer.status == 504)
            assert "timeout_s of 0.05" in late.json()["error"]
            # The connection is as good as before, and so is the model.
            assert clients[0].send(infer_bytes()).answer().status == 200
            stats = server.json("/v2/models/slow/stats")["model_stats"][0]
            assert stats["execution_count"] == 2
            assert stats["inference_stats"]["fail"]["count"] == 2
    finally:
        toml.unlink()
