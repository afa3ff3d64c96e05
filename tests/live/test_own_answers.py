"""Every caller gets its own answer, and models whose rows see each other are never merged."""

import json
import socket
import threading
from contextlib import ExitStack

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live import own_answers
from tests.live.server import Server

COUNT = 2000
CALLERS, ROUNDS = 8, 25


@pytest.mark.parametrize("worker", own_answers.CLASSES_OF_WORKERS)
def test_every_caller_gets_its_own_answer(tmp_path, worker):
    found = own_answers.hold(tmp_path, worker, COUNT)
    assert list(found) == ["merged", "exact"]
    for name, (wrong, _, _, requests, runs) in found.items():
        assert (name, wrong, requests) == (name, 0, COUNT)
        assert (runs == requests) is (name == "exact")


CONSTANTS = {
    "axis": np.array(0, np.int64),
    "zero": np.array([0], np.int64),
    "last": np.array([-1], np.int64),
    "w": np.random.default_rng(5).standard_normal((4, 4)).astype(np.float32),
}
GRAPHS = {
    "softmax-over-batch": [helper.make_node("Softmax", ["x"], ["y"], axis=0)],
    "mean-over-batch": [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"]),
    ],
    "running-sum": [helper.make_node("CumSum", ["x", "axis"], ["y"])],
    "non-zero": [
        helper.make_node("NonZero", ["x"], ["z"]),
        helper.make_node("Transpose", ["z"], ["t"], perm=[1, 0]),
        helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
    ],
    "last-row-sees-all": [
        helper.make_node("ReduceSum", ["x", "zero"], ["s"], keepdims=1),
        helper.make_node("Slice", ["x", "zero", "last", "zero"], ["head"]),
        helper.make_node("Concat", ["head", "s"], ["y"], axis=0),
    ],
    "independent": [helper.make_node("MatMul", ["x", "w"], ["y"])],
}


def save(folder, name, *, forced):
    """Writes the model `name`; returns its own session."""
    used = {each for node in GRAPHS[name] for each in node.input}
    graph = helper.make_graph(
        GRAPHS[name],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", "k"])],
        [numpy_helper.from_array(array, key) for key, array in CONSTANTS.items() if key in used],
    )
    place = folder / name
    place.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, place / "model.onnx")
    if forced:
        (place / "model.toml").write_text("batching = true\n")
    return onnxruntime.InferenceSession(model.SerializeToString())


def ask(port, name, seed, barrier, answers):
    """Asks with rows of its own, at the same time as all others, round after round."""
    rng = np.random.default_rng(seed)
    with socket.create_connection(("127.0.0.1", port), 30) as sock, sock.makefile("rb") as stream:
        for _ in range(ROUNDS):
            rows = np.round(rng.standard_normal((2, 4)), 1).astype(np.float32)
            barrier.wait(30)
            sock.sendall(own_answers.request(name, "json", rows))
            answers.append((rows, own_answers.read_answer(stream, "json")))


@pytest.mark.parametrize("forced", [False, True], ids=["by itself", "batching = true"])
def test_a_model_whose_rows_see_each_other_is_never_merged(tmp_path, forced):
    sessions = {name: save(tmp_path / "models", name, forced=forced) for name in GRAPHS}
    with Server(tmp_path, models=tmp_path / "models") as server:
        for name, session in sessions.items():
            barrier, answers = threading.Barrier(CALLERS), []
            callers = [
                threading.Thread(target=ask, args=(server.port, name, seed, barrier, answers))
                for seed in range(CALLERS)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(60)
            assert len(answers) == CALLERS * ROUNDS
            for rows, answer in answers:
                np.testing.assert_allclose(answer, session.run(None, {"x": rows})[0], rtol=1e-5, atol=1e-6)
            (stats,) = json.loads(server.get(f"/v2/models/{name}/stats"))["model_stats"]
            reason = server.json(f"/v2/models/{name}")["properties"]["batching"]
            if name == "independent":
                assert not forced or (reason.startswith("merged") and stats["execution_count"] < CALLERS * ROUNDS)
            else:
                assert stats["execution_count"] == CALLERS * ROUNDS
                assert reason.startswith("not merged: ")
                assert "differs in a batch" in reason or "no row for each row" in reason


@pytest.mark.parametrize("arguments", [(), ("-k", "gthread", "--threads", "8")], ids=["gather", "gthread"])
def test_requests_wait_for_each_other_where_the_configuration_says_so(tmp_path, arguments):
    save(tmp_path / "models", "independent", forced=True)
    # Nobody's patience ends in this test: only a full run does.
    toml = "batching = true\nmax_batch_size = 6\nmax_delay_us = 1000000\n"
    (tmp_path / "models" / "independent" / "model.toml").write_text(toml)
    rows = np.ones((2, 4), np.float32)
    with Server(tmp_path, *arguments, models=tmp_path / "models") as server, ExitStack() as opened:
        socks = [opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 30)) for _ in range(3)]
        for sock in socks:
            sock.sendall(own_answers.request("independent", "json", rows))
            server.get("/v2/health/live")
        for sock in socks:
            stream = opened.enter_context(sock.makefile("rb"))
            expected = rows @ CONSTANTS["w"]
            np.testing.assert_allclose(own_answers.read_answer(stream, "json"), expected, rtol=1e-5)
        stats = server.json("/v2/models/independent/stats")["model_stats"][0]
        assert (stats["execution_count"], stats["inference_stats"]["success"]["count"]) == (1, 3)
        # One that stays alone is answered when its time is over.
        socks[0].sendall(own_answers.request("independent", "json", rows))
        stream = opened.enter_context(socks[0].makefile("rb"))
        np.testing.assert_allclose(own_answers.read_answer(stream, "json"), expected, rtol=1e-5)
