"""Hostile requests get a sentence that names the place, and the next good one is served."""

import contextlib
import http.client
import json
import re
import socket

import pytest

from tests.live.hostile import FAMILIES, GOOD, LIMIT_BYTES, X
from tests.live.server import Server

LIVE = b"GET /v2/health/live HTTP/1.1\r\n"
INFER = b"POST " + X.encode() + b" HTTP/1.1\r\nHost: a\r\n"
CHUNKED = INFER + b"Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = [
    (b"zz\r\n{}\r\n0\r\n\r\n", "'zz'"),
    (b"-2\r\n{}\r\n0\r\n\r\n", "'-2'"),
    (b"0x2\r\n{}\r\n0\r\n\r\n", "'0x2'"),
    (b"2\r\n{}xx0\r\n\r\n", "'xx'"),
]
BAD_HEADS = [
    (b"\r\n\r\nnonsense\r\n\r\n", 400, "request line"),
    (b"GET\r\n\r\n", 400, "'GET'"),
    (b"GET /v2\r\n\r\n", 400, "'GET /v2'"),
    (b"GET  /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target ''"),
    (b"get /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "'get'"),
    (b"GET /v2 HTTP/9.9\r\nHost: a\r\n\r\n", 400, "HTTP/9.9"),
    (b"GET /v2 http/1.1\r\nHost: a\r\n\r\n", 400, "http/1.1"),
    (b"GET \xff HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"),
    (b"G\0T /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "method"),
    (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"a" * 50 + b"\r\n\r\n", 400, "request line"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "PRI"),
    (LIVE + b"\r\n", 400, "Host"),
    (LIVE + b"Host: a\r\nHost: b\r\n\r\n", 400, "Host"),
    (LIVE + b"Host : a\r\n\r\n", 400, "'Host : a'"),
    (LIVE + b"Host: a\r\nno colon\r\n\r\n", 400, "'no colon'"),
    (LIVE + b"Host: a\r\nX: a\0b\r\n\r\n", 400, "X: a"),
    (LIVE + b"Host: a\r\n: x\r\n\r\n", 400, "': x'"),
    (LIVE + b"Host: a\r\nX: a\r\n b\r\n\r\n", 400, "' b'"),
    (LIVE + b"Host: a\nX: b\n\n", 400, "bare LF"),
    (LIVE + b"Host: a\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431, "'X'"),
    (LIVE + b"Host: a\r\n" + b"X: a\r\n" * 150 + b"\r\n", 431, "100 header fields"),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "request line"),
    (INFER + b"Content-Length: x\r\n\r\n", 400, "'x'"),
    (INFER + b"Content-Length: -1\r\n\r\n", 400, "'-1'"),
    (INFER + b"Content-Length: +1\r\n\r\n{", 400, "Content-Length"),
    (INFER + b"Content-Length: 1_0\r\n\r\n{", 400, "'1_0'"),
    (INFER + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, "Content-Length"),
    (INFER + b"Content-Length: 99999999999999999999\r\n\r\n{", 400, "Content-Length"),
    (INFER + b"Content-Length: 9000000\r\n\r\n{", 413, str(LIMIT_BYTES)),
    (INFER + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "exclude each other"),
    (INFER + b"Transfer-Encoding: gzip\r\n\r\n", 400, "chunked"),
    (INFER + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 400, "chunked"),
    (INFER + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400, "chunked"),
    (INFER + b"Expect: 200-maybe\r\nContent-Length: 2\r\n\r\n{}", 417, "200-maybe"),
    (CHUNKED + b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n", 413, str(LIMIT_BYTES)),
    *((CHUNKED + chunks, 400, place) for chunks, place in BAD_CHUNKS),
]


def serve(folder, models, *arguments):
    return Server(folder, *arguments, models=models, pinion_ready="any", pinion_max_body_bytes=LIMIT_BYTES)


@pytest.fixture(scope="module")
def gather(tmp_path_factory, case_models):
    with serve(tmp_path_factory.mktemp("gather"), case_models("triton")) as server:
        yield server


@pytest.fixture(scope="module")
def gthread(tmp_path_factory, case_models):
    with serve(tmp_path_factory.mktemp("gthread"), case_models("triton"), "-k", "gthread", "--threads", "4") as server:
        yield server


@pytest.fixture(params=["gather", "gthread"])
def target(request):
    return request.getfixturevalue(request.param)


def connect(server):
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)


def exchange(connection, method, path, body, headers):
    """Status, content type and body."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.headers["Content-Type"], response.read()


def fault_of(answer, status, place):
    """What is wrong with an answer to a hostile request; None if nothing."""
    got, content_type, body = answer
    if got != status or content_type != "application/json" or b"Traceback" in body:
        return f"{got} {content_type} {body[:200]!r}"
    document = json.loads(body)
    named = f"{document['error']} {document.get('pointer')}"
    return None if re.search(place, named) and document["status"] == status else f"{place!r} isn't in {named}"


def next_is_served(connection):
    status, _, body = exchange(connection, "POST", X, json.dumps(GOOD), {})
    return status == 200 and json.loads(body)["outputs"][0]["data"] == [1, 0, 3]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_request_gets_its_reason_and_the_next_on_its_connection_is_served(target, family):
    already, faults = len(target.log()), {}
    with contextlib.closing(connect(target)) as connection:
        for case in FAMILIES[family]:
            answer = exchange(connection, case.method, case.path, case.body, case.headers)
            faults[case.label] = fault_of(answer, case.status, case.place)
            assert next_is_served(connection), case.label
    assert {label: fault for label, fault in faults.items() if fault} == {}
    assert "Traceback" not in target.log()[already:]


def test_there_are_enough_of_them():
    labels = [(family, case.label) for family, cases in FAMILIES.items() for case in cases]
    assert len(labels) >= 200
    assert len(set(labels)) == len(labels)


def raw_answer(server, message):
    """Status, content type and body of the first answer to some bytes."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(message)
        client.shutdown(socket.SHUT_WR)
        with contextlib.closing(http.client.HTTPResponse(client)) as response:
            response.begin()
            return response.status, response.headers["Content-Type"], response.read()


@pytest.mark.parametrize(("message", "status", "place"), BAD_HEADS, ids=range(len(BAD_HEADS)))
def test_what_is_no_request_gets_its_reason_and_others_are_served(gather, message, status, place):
    assert fault_of(raw_answer(gather, message), status, place) is None
    with contextlib.closing(connect(gather)) as connection:
        assert next_is_served(connection)


@pytest.mark.parametrize("chunks", [chunks for chunks, _ in BAD_CHUNKS], ids=["zz", "-2", "0x2", "longer"])
def test_bad_chunks_are_the_clients_fault_under_gunicorns_own_workers_too(target, chunks):
    assert fault_of(raw_answer(target, CHUNKED + chunks), 400, "chunk|body could not be received") is None
