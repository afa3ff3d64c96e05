"""Two workers share their work: connections at accept, waiting requests while a long run is on."""

import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live.server import Server, free_port, wait_for

LAYERS, SIZE = 120, 512
SLOW, QUICK = "/v2/models/slow/infer", "/v2/models/quick/infer"
ALMOST_EVEN = ([18, 22], [19, 21], [20, 20])
_clients = itertools.count(1)
DONE = re.compile(r'nv_inference_request_success\{[^}]*model="(\w+)"[^}]*\} (\S+)')


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """`slow` gives its number back after a tenth of a second or more and is never merged; `quick` needs no time."""
    folder = tmp_path_factory.mktemp("balance-models")
    for name, layers in (("slow", LAYERS), ("quick", 0)):
        nodes = [helper.make_node("Expand", ["x", "shape"], ["a0"])]
        nodes += [helper.make_node("MatMul", [f"a{step}", "w"], [f"a{step + 1}"]) for step in range(layers)]
        nodes += [helper.make_node("ReduceMean", [f"a{layers}"], ["y"], axes=[0, 1], keepdims=1)]
        size = SIZE if layers else 1
        weights = np.roll(np.eye(size, dtype=np.float32), 1, axis=1)
        constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([size, size]), "shape")]
        x, y = (helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, 1]) for end in "xy")
        graph = helper.make_graph(nodes, name, [x], [y], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, models):
    with Server(tmp_path_factory.mktemp("balance"), models=models, workers=2) as running:
        all_ready(running)
        yield running


class Client:
    """One kept-alive connection."""

    def __init__(self, address):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.sock.settimeout(60)
        self.sock.connect(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, number, path=SLOW, padding=0):
        body = json.dumps(
            {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [number]}], "id": "x" * padding}
        ).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        # As if every request came from somebody else.
        head += f"X-Forwarded-For: 2001:db8:{next(_clients):x}::1\r\n"
        self.sock.sendall(head.encode() + b"\r\n" + body)

    def answer(self):
        """The number that came back."""
        response = http.client.HTTPResponse(self.sock)
        response.begin()
        body = response.read()
        assert response.status == 200, body
        return json.loads(body)["outputs"][0]["data"][0]

    def ask(self, number, path=SLOW, padding=0):
        self.send(number, path, padding)
        return self.answer()

    def owner(self, server):
        """Process id of the worker that has the other end; None while it is on its way."""
        local, remote = self.sock.getsockname()[1], self.sock.getpeername()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].split(":")[1], 16) == remote and int(fields[2].split(":")[1], 16) == local:
                return holder(server, f"socket:[{fields[9]}]")
        return None


def all_ready(server, models=2, workers=2):
    wait_for(lambda: server.log().count("is ready after") >= models * workers)
    # Workers look for each other a few times a second.
    time.sleep(0.6)


def holder(server, link):
    for pid in server.workers():
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if entry.readlink().name == link:
                    return pid
    return None


def done(server):
    """Successes by model, over all workers; each writes what it counted within a tenth of a second."""
    time.sleep(0.15)
    counts = Counter()
    for model, count in DONE.findall(server.get("/metrics").decode()):
        counts[model] += int(float(count))
    return counts


def two_at_one_worker(server, stack):
    """Two connections that the same worker holds, its pid, and the other's."""
    clients = {}
    for _ in range(16):
        client = stack.enter_context(Client(("127.0.0.1", server.port)))
        assert client.ask(1, QUICK) == 1
        pid = client.owner(server)
        if pid in clients:
            (other,) = set(server.workers()) - {pid}
            return clients[pid], client, pid, other
        clients[pid] = client
    raise AssertionError("no worker has two of 16 connections")


def busy(first, number=1):
    """Begins a long run and waits until it is well under way."""
    first.send(number)
    time.sleep(0.03)


@pytest.mark.parametrize("padding", [0, 60_000, 300_000])
def test_a_request_that_would_wait_is_answered_by_the_idle_worker(server, padding):
    with ExitStack() as stack:
        first, second, pid, other = two_at_one_worker(server, stack)
        before = done(server)
        busy(first, 11)
        assert second.ask(22, padding=padding) == 22
        assert first.answer() == 11
        assert (first.owner(server), second.owner(server)) == (pid, other)
        assert [second.ask(number, path) for number, path in ((3, QUICK), (4, SLOW), (5, QUICK))] == [3, 4, 5]
        assert done(server) - before == {"slow": 3, "quick": 2}


def test_a_request_is_handed_over_once_a_worker_falls_idle(server):
    with ExitStack() as stack:
        first, second, pid, other = two_at_one_worker(server, stack)
        third = stack.enter_context(Client(("127.0.0.1", server.port)))
        third.ask(1, QUICK)
        busy(first, 1)
        busy(second, 2)
        assert second.owner(server) == other
        # Both are busy now; whoever is through first takes what waits.
        third.send(3)
        assert [client.answer() for client in (first, second, third)] == [1, 2, 3]
        assert third.owner(server) in (pid, other)


def test_what_waited_when_the_run_began_is_handed_over_too(server):
    with ExitStack() as stack:
        first, second, pid, other = two_at_one_worker(server, stack)
        clients = [stack.enter_context(Client(("127.0.0.1", server.port))) for _ in range(12)]
        assert {client.ask(1, QUICK) for client in clients} == {1}
        moved = 0
        for _ in range(6):
            theirs = next(client for client in clients if client.owner(server) == other)
            third = next(client for client in clients if client.owner(server) == pid)
            busy(first, 1)
            busy(theirs, 2)
            # Both wait at the first worker; when its run is over one runs there, the other goes on waiting.
            second.send(3)
            third.send(4)
            assert [client.answer() for client in (first, theirs, second, third)] == [1, 2, 3, 4]
            moved += third.owner(server) == other
        assert moved


def test_a_request_that_is_handed_over_is_charged_once(tmp_path, models):
    with (
        Server(tmp_path, models=models, workers=2, pinion_address_requests_per_s=0.001) as server,
        ExitStack() as stack,
    ):
        all_ready(server)
        first, second, _, other = two_at_one_worker(server, stack)
        os.kill(first.owner(server), signal.SIGSTOP)
        try:
            first.send(1)
            second.send(2)
        finally:
            os.kill(first.owner(server), signal.SIGCONT)
        # Each of these clients may ask once in a quarter of an hour.
        assert [client.answer() for client in (first, second)] == [1, 2]
        assert other in (first.owner(server), second.owner(server))


def test_every_one_of_many_callers_gets_its_own_answer_once(server):
    before = done(server)
    answers = {}

    def call(number):
        with Client(("127.0.0.1", server.port)) as client:
            for step in range(6):
                value = number * 10 + step
                answers[value] = client.ask(value, SLOW if (number + step) % 3 == 0 else QUICK)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(24)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == {number * 10 + step: number * 10 + step for number in range(24) for step in range(6)}
    assert done(server) - before == {"slow": 48, "quick": 96}


def test_requests_of_one_connection_keep_their_order(server):
    with ExitStack() as stack:
        first, second, *_ = two_at_one_worker(server, stack)
        busy(first, 0)
        for number in range(1, 5):
            second.send(number, SLOW if number % 2 else QUICK)
        assert [second.answer() for _ in range(4)] == [1, 2, 3, 4]
        assert first.answer() == 0


def test_a_caller_that_hangs_up_while_it_waits_harms_nobody(server):
    with ExitStack() as stack:
        first, second, *_ = two_at_one_worker(server, stack)
        busy(first, 1)
        second.send(2)
        second.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        second.sock.close()
        assert first.answer() == 1
        assert [first.ask(number) for number in (3, 4)] == [3, 4]
    assert len(server.workers()) == 2


def shares(server, clients):
    """How many of the connections each worker has, in order."""
    return sorted(Counter(client.owner(server) for client in clients).values())


def test_connections_that_come_at_once_are_shared_evenly(server):
    at_once = []
    for _ in range(6):
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(("127.0.0.1", server.port))) for _ in range(16)]
            for number, client in enumerate(clients):
                client.send(number, QUICK)
            assert [client.answer() for client in clients] == list(range(16))
            at_once.append(shares(server, clients))
            # Where a worker didn't get its core in time, the shares become even later.
            wait_for(lambda clients=clients: shares(server, clients) in ([7, 9], [8, 8]))
        # The next burst finds the workers without connections, as the first one did.
        time.sleep(0.2)
    assert any(share in ([7, 9], [8, 8]) for share in at_once), at_once


def test_a_worker_that_dies_while_others_hand_over_to_it_costs_only_what_it_had(tmp_path, models):
    with Server(tmp_path, models=models, workers=2) as server:
        answered, broken, stop = Counter(), Counter(), threading.Event()

        def call(number):
            while not stop.is_set():
                try:
                    with Client(("127.0.0.1", server.port)) as client:
                        while not stop.is_set():
                            answered[client.ask(number) == number] += 1
                except (OSError, http.client.HTTPException):
                    broken[number] += 1

        callers = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for caller in callers:
            caller.start()
        for _ in range(4):
            pids = wait_for(lambda: len(pids := server.workers()) == 2 and pids)
            before = answered[True]
            wait_for(lambda before=before: answered[True] > before + 10)
            os.kill(pids[0], signal.SIGKILL)
            wait_for(lambda dead=pids[0]: dead not in server.workers())
        wait_for(lambda: len(server.workers()) == 2)
        before = answered[True]
        wait_for(lambda: answered[True] > before + 20)
        stop.set()
        for caller in callers:
            caller.join(30)
        assert not any(caller.is_alive() for caller in callers)
        assert answered[False] == 0
        # A death breaks the connections that the worker had, six at most.
        assert sum(broken.values()) <= 4 * 6


def test_a_worker_that_is_told_to_stop_finishes_what_it_was_given(tmp_path, models):
    with Server(tmp_path, models=models, workers=2) as server:
        lost, stop = [], threading.Event()

        def call(number):
            while not stop.is_set():
                try:
                    with Client(("127.0.0.1", server.port)) as client:
                        if (answer := client.ask(number)) != number:
                            lost.append(answer)
                except (OSError, http.client.HTTPException) as fault:
                    lost.append(fault)

        callers = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for caller in callers:
            caller.start()
        for _ in range(3):
            time.sleep(0.5)
            pid = server.workers()[0]
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda pid=pid: pid not in server.workers() and len(server.workers()) == 2)
        stop.set()
        for caller in callers:
            caller.join(30)
        assert lost == []


def test_idle_connections_of_a_worker_that_stops_go_on_at_another(tmp_path, models):
    with Server(tmp_path, models=models, workers=2) as server, ExitStack() as stack:
        all_ready(server)
        clients = [stack.enter_context(Client(("127.0.0.1", server.port))) for _ in range(60)]
        assert [client.ask(number, QUICK) for number, client in enumerate(clients)] == list(range(60))
        stopped, stays = server.workers()
        wait_for(lambda: shares(server, clients)[0] > 20)
        os.kill(stopped, signal.SIGTERM)
        wait_for(lambda: stopped not in server.workers())
        assert [client.ask(number, QUICK) for number, client in enumerate(clients)] == list(range(60))
        assert {client.owner(server) for client in clients} == {stays}


def test_a_worker_that_comes_late_gets_its_share_of_the_connections(tmp_path, models):
    with Server(tmp_path, models=models, workers=1) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(("127.0.0.1", server.port))) for _ in range(40)]
        assert [client.ask(number, QUICK) for number, client in enumerate(clients)] == list(range(40))
        os.kill(server.pid, signal.SIGTTIN)
        wait_for(lambda: len(server.workers()) == 2)
        wait_for(lambda: shares(server, clients) in ALMOST_EVEN, 30)
        assert [client.ask(number, QUICK) for number, client in enumerate(clients)] == list(range(40))


def test_unix_sockets_are_handed_over_too(tmp_path, models):
    path = str(tmp_path / "sock")
    with Server(tmp_path, "--bind", f"unix:{path}", models=models, workers=2) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(path)) for _ in range(6)]
        for number, client in enumerate(clients):
            client.send(number)
        assert [client.answer() for client in clients] == list(range(6))
        assert [client.ask(number, QUICK) for number, client in enumerate(clients)] == list(range(6))
        assert done(server) == {"slow": 6, "quick": 6}


PORT_APP = """
from wsgi import app as service

def app(environ, start_response):
    if environ["PATH_INFO"] != "/port":
        return service(environ, start_response)
    body = environ["SERVER_PORT"].encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

for name in dir(service):
    if name.startswith("pinion_"):
        setattr(app, name, getattr(service, name))
"""


def test_a_connection_keeps_its_listener(tmp_path, models):
    (tmp_path / "port_app.py").write_text(PORT_APP)
    port = free_port()
    arguments = ("--bind", f"127.0.0.1:{port}", "--pythonpath", str(tmp_path))
    with Server(tmp_path, *arguments, models=models, workers=2, app="port_app:app") as server, ExitStack() as stack:
        moved = 0
        for _ in range(8):
            first, second = (stack.enter_context(Client(("127.0.0.1", port))) for _ in range(2))
            was = second.owner(server)
            busy(first)
            assert (second.ask(2), first.answer()) == (2, 1)
            moved += second.owner(server) != was
            second.sock.sendall(b"GET /port HTTP/1.1\r\nHost: a\r\n\r\n")
            response = http.client.HTTPResponse(second.sock)
            response.begin()
            assert response.read() == str(port).encode()
        assert moved


@pytest.fixture
def certificate(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


def test_encrypted_connections_stay_where_they_are(tmp_path, models, certificate):
    key, cert = certificate
    context = ssl.create_default_context(cafile=cert)
    arguments = ("--keyfile", str(key), "--certfile", str(cert))
    with Server(tmp_path, *arguments, models=models, workers=2, wait=None) as server, ExitStack() as stack:
        all_ready(server)
        clients = [stack.enter_context(Client(("127.0.0.1", server.port))) for _ in range(6)]
        for client in clients:
            client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
            assert client.ask(0, QUICK) == 0
        owners = [client.owner(server) for client in clients]
        for number, client in enumerate(clients):
            client.send(number)
        assert [client.answer() for client in clients] == list(range(6))
        assert [client.owner(server) for client in clients] == owners
