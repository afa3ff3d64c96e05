"""HTTP as the gathering worker speaks it, byte by byte."""

import json
import socket
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live.raw import BODY, Client, request
from tests.live.server import Server, wait_for


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iris")
    with Server(folder, "--keep-alive", "2", workers=1, pinion_head_timeout_s=1, pinion_body_timeout_s=1,
                pinion_max_body_bytes=200_000) as server:  # fmt: skip
        yield server


def setosa(answer):
    return answer.status == 200 and answer.json()["predictions"][0]["label"] == "setosa"


def test_keep_alive_and_its_end(iris):
    with Client(iris.port) as client:
        for _ in range(3):
            answer = client.ask()
            assert setosa(answer)
            assert answer.headers["connection"] == "keep-alive"
        assert client.ask(Connection="close").headers["connection"] == "close"
        assert client.is_closed()


def test_pipelined_requests_are_answered_in_order(iris):
    with Client(iris.port) as client:
        client.send(request(X_Request_Id="1") + request("GET", "/v2", None) + request(X_Request_Id="3"))
        assert client.answer().headers["x-request-id"] == "1"
        assert client.answer().json()["name"] == "pinion"
        assert client.answer().headers["x-request-id"] == "3"


def test_a_refused_request_ends_the_pipeline(iris):
    with Client(iris.port) as client:
        client.send(request() + request(host=False) + request())
        assert setosa(client.answer())
        refused = client.answer()
        assert refused.status == 400
        assert "Host" in refused.json()["error"]
        assert client.is_closed()


def test_http_1_0_closes_unless_asked(iris):
    with Client(iris.port) as client:
        assert setosa(client.send(request(version="1.0", host=False)).answer())
        assert client.is_closed()
    with Client(iris.port) as client:
        for _ in range(2):
            assert client.ask(version="1.0", Connection="keep-alive").headers["connection"] == "keep-alive"


def test_head_has_headers_only(iris):
    with Client(iris.port) as client:
        answer = client.send(request("HEAD", "/v2", None)).answer(head_only=True)
        assert int(answer.headers["content-length"]) > 20
        assert client.ask("GET", "/v2", None).json()["name"] == "pinion"


def test_100_continue(iris):
    with Client(iris.port) as client:
        head, body = request(Expect="100-continue").split(b"\r\n\r\n")
        assert client.send(head + b"\r\n\r\n").answer().status == 100
        assert setosa(client.send(body).answer())


def test_100_continue_is_not_given_to_a_body_over_the_limit(iris):
    with Client(iris.port) as client:
        client.send(b"POST /v2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 200001\r\n\r\n")
        answer = client.answer()
        assert answer.status == 413
        assert "PINION_MAX_BODY_BYTES" in answer.json()["error"]
        assert client.is_closed()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_any_way_of_cutting_a_request(iris, size):
    for data in (request(), chunked(3), chunked(1000)):
        with Client(iris.port) as client:
            for start in range(0, len(data), size):
                client.send(data[start : start + size])
            assert setosa(client.answer())


def chunked(size, body=BODY):
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    text = b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nX-Trailer: 1\r\n\r\n"
    return request(body=None, Transfer_Encoding="chunked") + text


def test_a_chunked_request_and_the_next_behind_it(iris):
    with Client(iris.port) as client:
        client.send(chunked(5) + request())
        assert setosa(client.answer())
        assert setosa(client.answer())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (chunked(9)[:-2].replace(b"9;a=b", b"zz"), 400),
        (request(body=None, Transfer_Encoding="chunked") + b"30d41\r\n", 413),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"nonsense\r\n\r\n", 400),
        (request(body=None, Content_Length="-1"), 400),
        (request(Transfer_Encoding="chunked"), 400),
        (request(Expect="something-else"), 417),
    ],
)
def test_what_is_refused_below_the_application_is_json_and_closes(iris, data, status):
    with Client(iris.port) as client:
        answer = client.send(data).answer()
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        assert set(answer.json()) == {"error", "type", "title", "status"}
        assert client.is_closed()
    assert iris.status("/v2/health/live") == 200


def test_a_half_closed_client_gets_its_answer(iris):
    with Client(iris.port) as client:
        client.send(request())
        client.sock.shutdown(socket.SHUT_WR)
        assert setosa(client.answer())
        assert client.is_closed()


@pytest.mark.parametrize("part", [b"POST /v2 HTT", request()[:-5], chunked(3)[:-30]])
def test_a_stalled_client_is_told_so(iris, part):
    with Client(iris.port) as client:
        answer = client.send(part).answer()
        assert answer.status == 408
        assert "stopped sending" in answer.json()["error"]
        assert client.is_closed()


def test_silent_connections_are_closed_without_a_word(iris):
    with Client(iris.port) as never, Client(iris.port) as once:
        assert setosa(once.ask())
        assert never.is_closed()
        assert once.is_closed()


def test_clients_that_hang_up_harm_nobody(iris):
    for data in (b"", b"POST", request()[:-3], request(), chunked(4)[:-9]):
        with Client(iris.port) as client:
            client.send(data)
    with Client(iris.port) as client:
        assert setosa(client.ask())


def test_the_largest_body_and_one_byte_more(iris):
    body = BODY + b" " * (200_000 - len(BODY))
    with Client(iris.port) as client:
        assert setosa(client.ask(body=body))
    with Client(iris.port) as client:
        assert client.ask(body=body + b" ").status == 413


def test_ids_come_back_and_stand_in_the_log(iris):
    with Client(iris.port) as client:
        assert (
            client.ask("POST", "/v2/models/nope/infer", b"{}", X_Request_Id="findme").headers["x-request-id"]
            == "findme"
        )
    wait_for(lambda: "findme" in iris.log())
    entry = json.loads(next(line for line in iris.log().splitlines() if "findme" in line))
    assert (entry["status"], entry["path"], entry["error"]) == (404, "/v2/models/nope/infer", "unknown-model")


@pytest.fixture(scope="module")
def wide_models(tmp_path_factory):
    """A model whose answer is 16 MB of a number."""
    folder = tmp_path_factory.mktemp("wide")
    node = helper.make_node("Expand", ["x", "shape"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = numpy_helper.from_array(np.array([4_000_000]), "shape")
    graph = helper.make_graph([node], "wide", [x], [y], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "wide.onnx")
    return folder


WIDE = json.dumps(
    {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.5]}],
        "parameters": {"binary_data_output": True},
    }
).encode()


def test_a_large_answer_arrives_whole(tmp_path, wide_models):
    with Server(tmp_path, models=wide_models, workers=1) as server:
        status, headers, body = server.post("/v2/models/wide/infer", WIDE)
        start = int(headers["Inference-Header-Content-Length"])
        assert status == 200
        assert body[start:] == np.full(4_000_000, 1.5, np.float32).tobytes()


def test_slow_readers_cost_bounded_memory_and_are_dropped(tmp_path, wide_models):
    limits = {"pinion_write_timeout_s": 1, "pinion_max_unsent_bytes": 30_000_000}
    with Server(tmp_path, models=wide_models, workers=1, **limits) as server:
        slow = [Client(server.port) for _ in range(5)]
        for client in slow:
            client.send(request("POST", "/v2/models/wide/infer", WIDE))
        with Client(server.port) as client:
            assert client.ask("GET", "/v2/health/live", None).status == 200
        time.sleep(3)
        for client in slow:
            with pytest.raises((EOFError, ConnectionResetError)):
                client.answer()
            client.sock.close()
        assert server.status("/v2/health/ready") == 200
