"""The gathering worker under the signals, addresses and settings that operators use."""

import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request

import pytest

from tests.live.raw import BODY, Client, request
from tests.live.server import ROOT, Server, wait_for


def test_sigterm_finishes_what_is_in_hand_and_exits_0(tmp_path):
    with Server(tmp_path, workers=2) as server:
        clients = [Client(server.port) for _ in range(4)]
        assert [client.ask().status for client in clients] == [200] * 4
        head = request()
        for client in clients:
            client.send(head[:-5])
        os.kill(server.pid, signal.SIGTERM)
        wait_for(lambda: server.status("/v2/health/live") is None)
        for client in clients:
            answer = client.send(head[-5:]).answer()
            assert answer.status == 200
            assert answer.headers["connection"] == "close"
            client.sock.close()
        assert server.process.wait(20) == 0


def test_draining_says_so_and_goes_on_accepting(tmp_path):
    with Server(tmp_path, workers=1, pinion_drain_s=3) as server, Client(server.port) as client:
        assert client.ask().status == 200
        os.kill(server.workers()[0], signal.SIGTERM)
        wait_for(lambda: server.status("/v2/health/ready") == 503)
        answer = client.ask()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"


def test_a_reload_loses_nothing(tmp_path):
    with Server(tmp_path, workers=2) as server:
        statuses, stop = [], threading.Event()

        def call():
            while not stop.is_set():
                with Client(server.port) as client:
                    statuses.append(client.ask(Connection="close").status)

        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        old = set(server.workers())
        os.kill(server.pid, signal.SIGHUP)
        wait_for(lambda: len(server.workers()) == 2 and not old & set(server.workers()))
        stop.set()
        for caller in callers:
            caller.join()
    assert set(statuses) == {200}


def test_max_requests_replaces_the_worker_without_a_lost_request(tmp_path):
    with Server(tmp_path, "--max-requests", "20", workers=1) as server:
        first = server.workers()
        for _ in range(100):
            with Client(server.port) as client:
                assert client.ask(Connection="close").status == 200
        assert server.workers() != first
        assert "Autorestarting worker" in server.log()


def test_a_killed_worker_is_replaced_on_its_lane(tmp_path):
    with Server(tmp_path, workers=1) as server:
        (first,) = server.workers()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: server.workers() not in ([], [first]) and server.status("/v2/health/ready") == 200)


def test_several_addresses_and_a_unix_socket(tmp_path):
    path = tmp_path / "pinion.sock"
    with Server(tmp_path, "--bind", f"unix:{path}", workers=1) as server:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            sock.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in sock.recv(4096)
        assert server.status("/v2/health/live") == 200


def test_connections_beyond_the_limit_wait_for_a_place(tmp_path):
    with (
        Server(tmp_path, "--worker-connections", "2", workers=1) as server,
        Client(server.port) as one,
        Client(server.port) as two,
        Client(server.port) as three,
    ):
        assert one.ask().status == two.ask().status == 200
        three.send(request())
        one.sock.close()
        assert three.answer().status == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
        f"subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    )
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("the openssl command is missing")
    return folder


def test_tls(tmp_path, certificate):
    arguments = ("--certfile", f"{certificate}/cert.pem", "--keyfile", f"{certificate}/key.pem")
    with Server(tmp_path, *arguments, workers=1, wait=None) as server:
        context = ssl.create_default_context(cafile=f"{certificate}/cert.pem")
        wait_for(lambda: "Using worker" in server.log())
        with (
            socket.create_connection(("127.0.0.1", server.port)),
            Client(server.port, lambda sock: context.wrap_socket(sock, server_hostname="localhost")) as client,
        ):
            assert client.ask().status == 200
            big = b'{"instances": [[5.1, 3.5, 1.4, 0.2]]' + b" " * 300_000 + b"}"
            assert client.ask(body=big).status == 200
        with urllib.request.urlopen(f"https://127.0.0.1:{server.port}/v2/health/live", context=context) as answer:
            assert answer.status == 200
        curl = ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", f"https://127.0.0.1:{server.port}/v2"]
        assert subprocess.run(curl, capture_output=True, check=True).stdout == b"200"


def tls_server(folder, certificate, **settings):
    arguments = ("--certfile", f"{certificate}/cert.pem", "--keyfile", f"{certificate}/key.pem")
    return Server(folder, *arguments, workers=1, wait=None, **settings)


def test_tls_requests_in_one_record_are_all_answered(tmp_path, certificate):
    context = ssl.create_default_context(cafile=f"{certificate}/cert.pem")
    with tls_server(tmp_path, certificate) as server:
        wait_for(lambda: "is ready after" in server.log())
        with Client(server.port, lambda sock: context.wrap_socket(sock, server_hostname="localhost")) as client:
            whole = request(body=BODY + b" " * 3000) * 3
            head_bytes = whole.index(b"\r\n\r\n") + 4
            client.send(whole[:head_bytes])
            time.sleep(0.1)
            client.send(whole[head_bytes:])
            assert [client.answer().status for _ in range(3)] == [200] * 3


def test_tls_clients_that_reset_at_once_end_no_worker(tmp_path, certificate):
    with tls_server(tmp_path, certificate) as server:
        wait_for(lambda: "is ready after" in server.log())
        before = server.workers()
        for number in range(300):
            with socket.create_connection(("127.0.0.1", server.port)) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(b"\x16\x03\x01" + bytes(number))
        context = ssl.create_default_context(cafile=f"{certificate}/cert.pem")
        with Client(server.port, lambda sock: context.wrap_socket(sock, server_hostname="localhost")) as client:
            assert client.ask().status == 200
        assert server.workers() == before
        assert "Traceback" not in server.log()


def test_access_log_and_statsd_when_asked_for(tmp_path):
    access = tmp_path / "access.log"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(10)
        arguments = ("--access-logfile", str(access), "--access-logformat", "%(h)s|%(r)s|%(s)s|%(b)s|%({host}i)s")
        address = f"127.0.0.1:{statsd.getsockname()[1]}"
        with Server(tmp_path, *arguments, "--statsd-host", address, workers=1) as server, Client(server.port) as client:
            assert client.ask().status == 200
            line = wait_for(lambda: re.search(r"^.*predict.*$", access.read_text(), re.MULTILINE))
            assert re.fullmatch(r"127\.0\.0\.1\|POST /v1/models/iris:predict HTTP/1\.1\|200\|\d+\|localhost", line[0])
            seen = b""
            while b"gunicorn.request.status.200" not in seen:
                seen += statsd.recv(4096)
            assert b"gunicorn.requests" in seen


APP = """
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/crash":
        raise RuntimeError("on purpose")
    if path == "/split":
        start_response("200 OK", [("X-Bad", "a\\r\\nInjected: 1")])
        return [b"x"]
    if path == "/late":
        def parts():
            start_response("200 OK", [("Content-Type", "text/plain"), ("Connection", "close")])
            yield b"one,"
            yield b"two"
        return parts()
    if path == "/broken":
        def parts():
            start_response("200 OK", [])
            yield b"one"
            raise RuntimeError("half way")
        return parts()
    if path == "/write":
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"written,")
        return [environ["wsgi.input"].read(), b"|", environ["wsgi.input"].read(5)]
    if path == "/lines":
        start_response("200 OK", [])
        return [b"-".join(environ["wsgi.input"])]
    if path == "/nothing":
        start_response("204 No Content", [])
        return []
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"no"]
"""
CONF = """
import runpy
globals().update({{k: v for k, v in runpy.run_path("{conf}").items() if not k.startswith("__")}})
def pre_request(worker, req):
    worker.log.info("before %s", req.path)
def post_request(worker, req, environ, resp):
    worker.log.info("after %s %s", req.path, resp.status)
"""


@pytest.fixture(scope="module")
def any_app(tmp_path_factory):
    """An application that isn't ours."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "anyapp.py").write_text(APP)
    conf = folder / "conf.py"
    conf.write_text(CONF.format(conf=ROOT / "gunicorn.conf.py"))
    with Server(
        folder, "-c", str(conf), "--pythonpath", str(folder), workers=1, app="anyapp:app", wait="/nothing"
    ) as server:
        yield server


def ask(server, path, body=b""):
    with Client(server.port) as client:
        return client.ask("POST", path, body)


@pytest.mark.parametrize("path", ["/crash", "/split", "/broken"])
def test_an_application_that_fails_gives_a_json_500_and_the_worker_lives(any_app, path):
    pids = any_app.workers()
    answer = ask(any_app, path)
    assert answer.status == 500
    assert answer.json()["error"] == "internal error; the log has the reason"
    assert "injected" not in answer.headers
    assert any_app.workers() == pids


def test_the_rest_of_wsgi(any_app):
    assert ask(any_app, "/late").body == b"one,two"
    assert ask(any_app, "/late").headers["connection"] == "close"
    assert ask(any_app, "/write", b"body").body == b"written,body|"
    assert ask(any_app, "/lines", b"a\nb").body == b"a\n-b"
    assert ask(any_app, "/none").body == b"no"
    nothing = ask(any_app, "/nothing")
    assert (nothing.status, nothing.body, nothing.headers.get("content-length")) == (204, b"", None)


def test_hooks_of_an_operator_are_called(any_app):
    ask(any_app, "/none")
    wait_for(lambda: "before /none" in any_app.log() and "after /none 404 Not Found" in any_app.log())


def test_a_worker_without_the_hooks_of_ours_serves_too(tmp_path):
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with Server(tmp_path, "-c", str(empty), "-k", "service.prefork.worker.GatherWorker", workers=2) as server:
        assert len(server.workers()) == 2
        assert server.post("/v1/models/iris:predict", {"instances": [[5.1, 3.5, 1.4, 0.2]]})[0] == 200
