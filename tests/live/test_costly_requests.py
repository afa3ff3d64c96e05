"""Small requests that once cost seconds, gigabytes or a connection: each is answered, and costs what it sends."""

import contextlib
import gzip
import http.client
import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live.processes import resident_bytes
from tests.live.raw import Client, request
from tests.live.server import Server, wait_for

INFER, MEGABYTE = "/v2/models/iris/infer", 1 << 20
PREDICT, FLOWER = "/v1/models/iris:predict", b'{"instances":[[5.1,3.5,1.4,0.2]]}'


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("costly"), workers=1) as server:
        yield server


def tensor(**members):
    item = {"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]} | members
    return json.dumps({"inputs": [item]}).encode()


def peak_bytes(pid):
    """Most memory that was ever resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


@pytest.mark.parametrize(
    "body",
    [
        tensor(shape=[2**63 - 1] * 200_000, data=[]),
        tensor(shape=[1] * 1_000_000),
        tensor(name="a" * 5_000_000),
        tensor(datatype="F" * 5_000_000),
        tensor(data=["b" * 5_000_000]),
        json.dumps({"inputs": [], "o" * 5_000_000: 1, "outputs": ["c" * 5_000_000]}).encode(),
    ],
    ids=["large shape", "long shape", "long name", "long datatype", "long text", "long output"],
)
def test_an_error_comes_at_once_and_tells_no_more_than_a_part(iris, body):
    status, _, answer = iris.post(INFER, gzip.compress(body), Content_Encoding="gzip")
    assert status == 400
    assert len(answer) < 20_000
    assert json.loads(answer)["status"] == 400


def test_a_body_that_is_only_promised_costs_nothing(iris):
    (worker,) = iris.workers()
    before_bytes = resident_bytes(worker)
    with contextlib.ExitStack() as opened:
        for _ in range(30):
            client = opened.enter_context(Client(iris.port))
            client.send(f"POST {INFER} HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n".encode())
        assert iris.status("/v2/health/live") == 200
        assert resident_bytes(worker) - before_bytes < 50 * MEGABYTE


def test_a_body_comes_whole_however_it_is_cut(iris):
    body = tensor(parameters={"note": "x" * 3_000_000})
    with Client(iris.port) as client:
        client.send(f"POST {INFER} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for start in range(0, len(body), 70_000):
            client.send(body[start : start + 70_000])
        assert client.answer().status == 200
        assert client.ask("POST", PREDICT, FLOWER).status == 200


def test_a_long_text_beside_many_brackets_costs_a_few_times_its_size(tmp_path):
    with Server(tmp_path, workers=1) as server:
        (worker,) = server.workers()
        before_bytes = peak_bytes(worker)
        body = b'{"id":"' + b"a" * 10_000_000 + b'","x":[' + b",".join([b"[]"] * 120) + b"]}"
        assert server.post(INFER, gzip.compress(body), Content_Encoding="gzip")[0] == 400
        assert peak_bytes(worker) - before_bytes < 100 * MEGABYTE


def test_an_idle_connection_keeps_no_large_head(tmp_path):
    headers = {f"X-{number}": "v" * 8000 for number in range(90)}
    with Server(tmp_path, workers=1) as server, contextlib.ExitStack() as opened:
        (worker,) = server.workers()
        clients = [opened.enter_context(Client(server.port)) for _ in range(100)]
        assert clients[0].ask("POST", PREDICT, FLOWER, **headers).status == 200
        before_bytes = resident_bytes(worker)
        for client in clients:
            assert client.ask("POST", PREDICT, FLOWER, **headers).status == 200
            # A large head is read anew each time; a small one behind it must not be taken for it.
            assert client.ask("POST", PREDICT, FLOWER).status == 200
            assert client.ask("POST", PREDICT, FLOWER, **headers).status == 200
        assert resident_bytes(worker) - before_bytes < 30 * MEGABYTE


def test_a_class_of_no_rows(iris):
    body = json.loads(tensor(shape=[0, 4], data=[]))
    body["outputs"] = [{"name": "probabilities", "parameters": {"classification": 2}}]
    status, _, answer = iris.post(INFER, body)
    assert (status, json.loads(answer)["outputs"][0]["shape"]) == (200, [0, 2])


@pytest.mark.parametrize("log", [0, 1])
def test_a_length_with_thousands_of_zeros_is_a_number(tmp_path, log):
    with Server(tmp_path, workers=1, pinion_request_log=log) as server, Client(server.port) as client:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nContent-Length: {'0' * 5000}"
        assert client.send(f"{head}2\r\n\r\n{{}}".encode()).answer().status == 400
        assert client.send(f"{head}{len(FLOWER)}\r\n\r\n".encode() + FLOWER).answer().status == 200
        assert "Traceback" not in server.log()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_reload_drops_no_connection_that_is_kept_alive(tmp_path, workers):
    with Server(tmp_path, workers=workers) as server, contextlib.ExitStack() as opened:
        connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=20) for _ in range(8)]
        for connection in connections:
            opened.callback(connection.close)
        old = set(server.workers())
        told = asked = 0

        def ask_all():
            nonlocal told, asked
            for connection in connections:
                connection.request("POST", PREDICT, FLOWER)
                response = connection.getresponse()
                assert response.status == 200
                response.read()
                # http.client opens a new one by itself after a "close", and raises where an end wasn't announced.
                told += response.getheader("Connection") == "close"
                asked += 1

        ask_all()
        os.kill(server.pid, signal.SIGHUP)
        wait_for(lambda: ask_all() or not old & set(server.workers()))
        for _ in range(5):
            ask_all()
            time.sleep(0.02)
        assert asked >= 48
        assert told <= asked // 4


def test_pipelined_requests_with_bodies_of_all_sizes(iris):
    sizes = (0, 10, 70_000, 5, 300_000, 1)
    bodies = [tensor(parameters={"note": "x" * size}) for size in sizes]
    with Client(iris.port) as client:
        client.send(b"".join(request("POST", INFER, body) for body in bodies))
        assert [client.answer().status for _ in bodies] == [200] * len(bodies)


FLOATS, TOGETHER, RUNS = 2_000_000, 8, 6


@pytest.fixture
def wide_models(tmp_path):
    """Small requests, answers of 8 MB: far more than a socket takes. Requests for it share runs."""
    folder = tmp_path / "wide"
    folder.mkdir()
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "row"], ["y"])],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", FLOATS])],
        [numpy_helper.from_array(np.ones((1, FLOATS), np.float32), "row")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "wide.onnx")
    (folder / "wide.toml").write_text(f"batching = true\nmax_batch_size = {TOGETHER}\n")
    return folder


def silent_client(port):
    """A socket whose own buffer takes next to nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    return sock


def test_a_client_that_reads_nothing_holds_its_own_answer_and_not_those_of_its_run(tmp_path, wide_models):
    item = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}
    output = {"name": "y", "parameters": {"binary_data": True}}
    wide = request("POST", "/v2/models/wide/infer", json.dumps({"inputs": [item], "outputs": [output]}).encode())
    with Server(tmp_path, models=wide_models, workers=1) as server, contextlib.ExitStack() as opened:
        (worker,) = server.workers()
        readers = [opened.enter_context(Client(server.port)) for _ in range(TOGETHER - 1)]

        def run(silent):
            for client in (*(reader.sock for reader in readers), silent):
                client.sendall(wide)
            assert {client.answer().status for client in readers} == {200}

        with silent_client(server.port) as first:
            run(first)
        before_bytes = resident_bytes(worker)
        for _ in range(RUNS):
            run(opened.enter_context(silent_client(server.port)))
            time.sleep(0.6)
        stats = server.json("/v2/models/wide/stats")["model_stats"][0]
        assert stats["execution_count"] < stats["inference_count"] / 3
        assert resident_bytes(worker) - before_bytes < RUNS * 2 * FLOATS * 4
