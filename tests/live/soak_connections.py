"""Thousands of idle clients, clients that send a byte a second, and clients that never read, beside busy ones.

Each crowd comes and goes several times; P99 of 16 busy connections is compared with and without it, and so is the
memory of the one worker. The worker has one core, the busy clients another.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from service.settings import Settings
from tests.live.raw import BODY, PATH, request
from tests.live.server import ROOT, Server

IDLE, SLOW, BUSY = 5000, 500, 16
ROUNDS, SECONDS = 9, 2
WIDE_FLOATS = 1_500_000
MOST_P99, MOST_KIB = 1.20, 10.0


def make_wide_model(folder):
    """Small requests, answers of 6 MB: more than a socket takes. Requests for it share runs of eight."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "row"], ["y"])],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDE_FLOATS])],
        [numpy_helper.from_array(np.ones((1, WIDE_FLOATS), np.float32), "row")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "wide.onnx")
    (folder / "wide.toml").write_text("batching = true\nmax_batch_size = 8\n")
    body = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    return request("POST", "/v2/models/wide/infer", json.dumps(body).encode())


def open_all(port, count, first):
    """Connections with small buffers of their own, each of which has sent something."""
    clients = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        sock.sendall(first)
        clients.append(sock)
    return clients


@contextlib.contextmanager
def idle(port):
    """Each has had its answer."""
    clients = open_all(port, IDLE, request("POST", PATH, BODY))
    for client in clients:
        client.settimeout(20)
        if b" 200 " not in client.recv(4096):
            raise AssertionError("an idle client had no answer")
    try:
        yield
    finally:
        close_all(clients)


@contextlib.contextmanager
def dripping(port):
    """Half of them drip a head, half a body; a byte a second each, one after the other. Who is told 408 comes again."""
    head = request("POST", PATH, BODY)
    starts = (head[:1], head.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    clients = [client for start in starts for client in open_all(port, SLOW // 2, start)]
    stop = threading.Event()

    def drip():
        turn = 0
        while not stop.wait(1 / SLOW):
            turn = (turn + 1) % SLOW
            try:
                clients[turn].send(b"x")
            except OSError:
                clients[turn].close()
                clients[turn] = open_all(port, 1, starts[turn * 2 // SLOW])[0]

    dripper = threading.Thread(target=drip)
    dripper.start()
    try:
        yield
    finally:
        stop.set()
        dripper.join()
        close_all(clients)


@contextlib.contextmanager
def never_reading(port, wide_request):
    """Each asks for 6 MB and takes none of it."""
    clients = open_all(port, SLOW, wide_request)
    try:
        yield
    finally:
        close_all(clients)


def read_widely(port, wide_request):
    """As many read their answers at once as a run has rows: what runs of that size need, they leave allocated."""
    clients = open_all(port, 64, wide_request)
    for client in clients:
        client.settimeout(20)
        left = WIDE_FLOATS * 4
        while left > 0:
            left -= len(client.recv(1 << 20))
    close_all(clients)


def close_all(clients):
    for client in clients:
        client.close()


def busy(server):
    """P99, milliseconds, and failures of the busy connections."""
    job = {
        "port": server.port, "request": base64.b64encode(request("POST", PATH, BODY)).decode(), "connections": BUSY,
        "warm_up_s": 0.5, "seconds": SECONDS, "rate": 0, "seed": 1, "pids": server.workers(),
    }  # fmt: skip
    command = (sys.executable, "-m", "bench.load")
    done = subprocess.run(command, input=json.dumps(job), cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return measured["p99_ms"], measured["failures"]


def memory_bytes(server):
    """What the worker has that no other process shares, and its part of the rest."""
    text = Path(f"/proc/{server.workers()[0]}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def compare(server, crowd):
    """P99 without the crowd and with it, of the round with the median ratio; the most memory it took; failures."""
    without, with_it, grown, failures = [], [], [], 0
    for _ in range(ROUNDS):
        p99_ms, failed = busy(server)
        without.append(p99_ms)
        failures += failed
        before_bytes = memory_bytes(server)
        with crowd():
            p99_ms, failed = busy(server)
            grown.append(memory_bytes(server) - before_bytes)
            with_it.append(p99_ms)
            failures += failed
        time.sleep(1)
    without_ms, with_ms = sorted(zip(without, with_it, strict=True), key=lambda pair: pair[1] / pair[0])[ROUNDS // 2]
    return without_ms, with_ms, max(grown), failures


def report(name, count, measured, most_bytes):
    """One line; whether it is as it should be."""
    without_ms, with_ms, grown_bytes, failures = measured
    ratio = with_ms / without_ms
    sys.stdout.write(
        f"{count:5} {name:13} P99 {without_ms:.3f} ms without, {with_ms:.3f} ms with them: {ratio:.2f}; "
        f"{grown_bytes / 1024 / count:.1f} KiB each, {grown_bytes / 2**20:.0f} MiB in all; {failures} failures\n"
    )
    sys.stdout.flush()
    return ratio <= MOST_P99 and grown_bytes <= most_bytes and not failures


def main():
    """Prints a line for each crowd; 1 if one of them cost more than it should."""
    cores = sorted(os.sched_getaffinity(0))
    max_unsent_bytes = Settings().max_unsent_bytes
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "models")
        folder.mkdir()
        wide_request = make_wide_model(folder)
        (folder / "iris").symlink_to(ROOT / "models" / "iris")
        os.sched_setaffinity(0, cores[:1])
        server = Server(made, "--worker-connections", str(IDLE * 2), models=folder, workers=1)
        with server:
            os.sched_setaffinity(0, cores[1:] or cores)
            read_widely(server.port, wide_request)
            fine = [
                report("idle", IDLE, compare(server, lambda: idle(server.port)), IDLE * MOST_KIB * 1024),
                report("dripping", SLOW, compare(server, lambda: dripping(server.port)), SLOW * 64 * 1024),
                report(
                    "never reading", SLOW, compare(server, lambda: never_reading(server.port, wide_request)),
                    max_unsent_bytes * 1.25,
                ),
            ]  # fmt: skip
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
