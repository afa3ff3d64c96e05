"""How near two workers come to one queue: a 20 ms model, Poisson arrivals, latency from the intended start.

    .venv/bin/python bench/balance.py                 # about a minute and a half on two free cores
    .venv/bin/python bench/balance.py --run-ms 10 --load 0.8 --seconds 120

The same arrivals with the same run times are put through a central queue in which no worker ever idles while a
request waits: the best that any placing of requests can do. Exit status 1 if P99 is above `--goal` times that.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
SIZE = 256
START_S = 60
GRACE_S = 30


class Measured(NamedTuple):
    """What the load generator and the journal saw, by request."""

    due_s: list[float]
    latency_s: list[float]
    run_s: list[float]
    pids: list[int]


def model(layers: int) -> bytes:
    """A chain of matrix products; all shapes are fixed, so requests never share a run."""
    nodes = [helper.make_node("Expand", ["x", "shape"], ["a0"])]
    nodes += [helper.make_node("MatMul", [f"a{step}", "w"], [f"a{step + 1}"]) for step in range(layers)]
    nodes += [helper.make_node("ReduceMean", [f"a{layers}"], ["y"], axes=[0, 1], keepdims=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    # A cyclic shift: the mean of what comes out is what went in.
    shift = np.roll(np.eye(SIZE, dtype=np.float32), 1, axis=1)
    constants = [numpy_helper.from_array(shift, "w"), numpy_helper.from_array(np.array([SIZE, SIZE]), "shape")]
    graph = helper.make_graph(nodes, "chain", [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = made.SerializeToString()
    return data


def run_time_s(layers: int) -> float:
    """Median time of a run on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model(layers), options, providers=["CPUExecutionProvider"])
    feeds, times = {"x": np.ones((1, 1), np.float32)}, []
    for _ in range(15):
        began_s = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - began_s)
    return float(np.median(times))


def calibrated(wanted_s: float) -> int:
    """The number of layers that takes so long on this machine."""
    layers = 20
    for _ in range(3):
        layers = max(1, round(layers * wanted_s / run_time_s(layers)))
    return layers


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Due times of a Poisson process."""
    random_ = random.Random(seed)
    due_s, at_s = [], random_.expovariate(rate)
    while at_s < seconds:
        due_s.append(at_s)
        at_s += random_.expovariate(rate)
    return due_s


class Client:
    """Kept-alive connections; each has one request under way at most."""

    def __init__(self, port: int, connections: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._selector = selectors.EpollSelector()
        self._free: list[socket.socket] = []
        self._under_way: dict[socket.socket, int] = {}
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}).encode()
        head = "POST /v2/models/chain/infer HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
        self._head, self._body = f"{head}Content-Length: {len(body)}\r\nX-Request-Id: b-".encode(), b"\r\n\r\n" + body
        for _ in range(connections):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(sock, selectors.EVENT_READ, sock)
            self._free.append(sock)

    def run(self, due_s: list[float]) -> list[float]:
        """Sends every request when it is due, on a free connection chosen by chance; latencies from then."""
        latency_s = [float("nan")] * len(due_s)
        waiting: deque[int] = deque()
        following, started_s = 0, time.perf_counter()
        while following < len(due_s) or waiting or self._under_way:
            now_s = time.perf_counter() - started_s
            while following < len(due_s) and due_s[following] <= now_s:
                waiting.append(following)
                following += 1
            while waiting and self._free:
                self._send(waiting.popleft())
            if now_s > due_s[-1] + GRACE_S:
                sys.exit(f"{len(self._under_way)} requests have no answer {GRACE_S} s after the last was due")
            patience_s = due_s[following] - now_s if following < len(due_s) else 1.0
            for key, _ in self._selector.select(max(patience_s, 0.0)):
                number = self._receive(key.data)
                latency_s[number] = time.perf_counter() - started_s - due_s[number]
        return latency_s

    def _send(self, number: int) -> None:
        sock = self._free.pop(self._random.randrange(len(self._free)))
        self._under_way[sock] = number
        sock.sendall(self._head + str(number).encode() + self._body)

    def _receive(self, sock: socket.socket) -> int:
        answer = sock.recv(65536)
        if b" 200 OK\r\n" not in answer[:32] or b'"data":[7.0]' not in answer:
            sys.exit(f"expected an answer in one piece with the value 7, got {answer[:500]!r}")
        self._free.append(sock)
        return self._under_way.pop(sock)


def central_queue(due_s: list[float], run_s: list[float], workers: int) -> list[float]:
    """Latencies if the oldest request always went to the first worker that is free."""
    free_s = [0.0] * workers
    latency_s = []
    for due, run in zip(due_s, run_s, strict=True):
        ended_s = max(due, heapq.heappop(free_s)) + run
        heapq.heappush(free_s, ended_s)
        latency_s.append(ended_s - due)
    return latency_s


def bound_connections(due_s: list[float], run_s: list[float], workers: int, seed: int) -> list[float]:
    """Latencies if each request went to a worker by chance and waited there."""
    random_ = random.Random(seed)
    free_s = [0.0] * workers
    latency_s = []
    for due, run in zip(due_s, run_s, strict=True):
        worker = random_.randrange(workers)
        free_s[worker] = max(due, free_s[worker]) + run
        latency_s.append(free_s[worker] - due)
    return latency_s


def started(folder: Path, workers: int) -> tuple[subprocess.Popen[bytes], int]:
    """The service with the shipped configuration, and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "wsgi:app", "-b", f"127.0.0.1:{port}", "-w", str(workers)]
    environ = os.environ | {"PINION_MODELS": str(folder / "models"), "PINION_REQUEST_LOG": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return process, port
    process.terminate()
    sys.exit(f"the service did not start:\n{(folder / 'log').read_text()}")


def measure(arguments: argparse.Namespace, folder: Path) -> Measured:
    """Runs the load against the service."""
    process, port = started(folder, arguments.workers)
    try:
        client = Client(port, arguments.connections, arguments.seed)
        pause_s = arguments.run_ms / 1e3 * 2
        client.run([number * pause_s for number in range(50)])
        rate = arguments.load * arguments.workers / (arguments.run_ms / 1e3)
        due_s = arrivals(rate, arguments.seconds, arguments.seed)
        latency_s = client.run(due_s)
    finally:
        process.terminate()
        process.wait()
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]
    of_inferences = [line for line in lines if line.get("request_id", "").startswith("b-")][50:]
    by_id = {line["request_id"]: line for line in of_inferences}
    if len(of_inferences) != len(due_s) or len(by_id) != len(due_s):
        sys.exit(f"{len(due_s)} requests were sent, the journal has {len(of_inferences)}: some lost or answered twice")
    ordered = [by_id[f"b-{number}"] for number in range(len(due_s))]
    return Measured(due_s, latency_s, [line["run_ms"] / 1e3 for line in ordered], [line["pid"] for line in ordered])


def main() -> int:
    """Prints the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-ms", type=float, default=20.0, help="run time of the model")
    parser.add_argument("--load", type=float, default=0.7, help="arrivals as a fraction of what the workers can do")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goal", type=float, default=1.25, help="P99 at most so many times the central queue's")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        layers = calibrated(arguments.run_ms / 1e3)
        (folder / "models").mkdir()
        (folder / "models" / "chain.onnx").write_bytes(model(layers))
        measured = measure(arguments, folder)
    return report(arguments, measured)


def report(arguments: argparse.Namespace, measured: Measured) -> int:
    """Prints what was measured beside what the two queues would have given."""
    ideal = central_queue(measured.due_s, measured.run_s, arguments.workers)
    bound = bound_connections(measured.due_s, measured.run_s, arguments.workers, arguments.seed)
    run_ms = np.array(measured.run_s) * 1e3
    shares = [measured.pids.count(pid) for pid in sorted(set(measured.pids))]
    busy = sum(measured.run_s) / arguments.workers / measured.due_s[-1]
    print(f"{len(run_ms)} requests, workers {shares}, run P50 {np.median(run_ms):.1f} ms, ", end="")
    print(f"P99 {np.percentile(run_ms, 99):.1f} ms, workers busy {busy:.0%}")
    ratios: dict[str, float] = {}
    for name, latency_s in (("this service", measured.latency_s), ("central queue", ideal), ("by chance", bound)):
        ratios[name] = float(np.percentile(latency_s, 99) / np.percentile(ideal, 99))
        p50, p90, p99 = np.percentile(latency_s, [50, 90, 99]) * 1e3
        print(f"{name:14} P50 {p50:6.1f} ms  P90 {p90:6.1f} ms  P99 {p99:6.1f} ms  P99 / central {ratios[name]:.2f}")
    return int(ratios["this service"] > arguments.goal)


if __name__ == "__main__":
    sys.exit(main())
