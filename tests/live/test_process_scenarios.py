"""The process cases 90, 92, 94, 95 and 98, each as its README describes it."""

import json
import os
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.live import processes
from tests.live.processes import CASE_MODEL, data_of, infer
from tests.live.server import Server, wait_for

WORKERS = [pytest.param((), id="gather"), pytest.param(("-k", "gthread", "--threads", "4"), id="gthread")]
MEGABYTE = 1 << 20


def expected(model, rows=1):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.full((rows, 64), 0.01, np.float32)})[0].ravel()


def kill_one(server):
    """Kills a worker and waits until another takes its place; both process ids."""
    before = server.workers()
    os.kill(before[0], signal.SIGKILL)
    successors = wait_for(lambda: len(server.workers()) == len(before) and set(server.workers()) - set(before))
    return before[0], successors.pop()


@pytest.mark.parametrize("arguments", WORKERS)
def test_90_preloaded_workers_with_two_threads_answer_and_so_does_a_successor(tmp_path, arguments):
    models = processes.repository(tmp_path / "models", CASE_MODEL, toml="threads = 2\n")
    right = expected(CASE_MODEL, 256)

    def check():
        np.testing.assert_allclose(processes.infer_raw(server.url, 256), right, rtol=1e-4, atol=1e-6)

    with Server(tmp_path, "--preload", *arguments, models=models, workers=2, pinion_request_log=1) as server:
        for _ in range(20):
            check()
        _, successor = kill_one(server)
        for _ in range(10):
            check()
        wait_for(lambda: check() or successor in processes.journal_pids(server), 60)


def test_92_memory_stays_where_the_first_round_of_shapes_left_it(tmp_path):
    models = processes.repository(tmp_path / "models", CASE_MODEL)
    with Server(tmp_path, models=models) as server:
        resident = []
        for _ in range(3):
            for rows in range(1, 401):
                assert len(processes.infer_raw(server.url, rows)) == rows * 64
            resident.append(processes.resident_bytes(server.workers()[0]))
    assert resident[2] <= max(resident[0] * 1.1, resident[0] + 20 * MEGABYTE)


def refuses(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("arguments", WORKERS)
def test_94_sigterm_lets_requests_in_progress_finish(tmp_path, arguments):
    models = processes.repository(tmp_path / "models", processes.slow_model())
    with Server(tmp_path, *arguments, models=models, workers=2) as server, ThreadPoolExecutor(4) as clients:
        rounds = processes.rounds_for(server.url, 1.0)
        workers = server.workers()
        slow = [
            clients.submit(infer, server.url, [], tensor="rounds", datatype="INT64", value=rounds) for _ in range(4)
        ]
        wait_for(lambda: connections_to(server.port) >= 4)
        os.kill(server.pid, signal.SIGTERM)
        wait_for(lambda: refuses(server.port))
        answers = [future.result() for future in slow]
        assert [data_of(answer) for answer in answers] == [[rounds]] * 4
        assert {answer.headers["Connection"] for answer in answers} == {"close"}
        assert server.process.wait(25) == 0
    assert [pid for pid in workers if processes.is_alive(pid)] == []


def test_94_while_it_drains_it_serves_and_readiness_is_false(tmp_path):
    models = processes.repository(tmp_path / "models", CASE_MODEL)
    with Server(tmp_path, models=models, pinion_drain_s=4) as server:
        os.kill(server.pid, signal.SIGTERM)
        wait_for(lambda: server.status("/v2/health/ready") == 503, 3)
        assert len(data_of(infer(server.url, [1, 64]))) == 64
        assert server.process.wait(25) == 0


def connections_to(port):
    """Established connections to a port of this machine."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(1 for _, local, _, state, *_ in rows[1:] if (local, state) == (f"0100007F:{port:04X}", "01"))


def successes(server):
    text = server.get("/metrics").decode()
    found = re.findall(r'^nv_inference_request_success(?:_total)?\{[^}]*model="m"[^}]*\} (\S+)$', text, re.MULTILINE)
    return [float(count) for count in found]


@pytest.mark.parametrize("arguments", WORKERS)
def test_95_counters_are_those_of_all_workers_and_never_fall(tmp_path, arguments):
    models = processes.repository(tmp_path / "models", CASE_MODEL)
    with Server(tmp_path, *arguments, models=models, workers=2) as server:
        for _ in range(40):
            data_of(infer(server.url, [1, 64]))
        assert [successes(server) for _ in range(10)] == [[40]] * 10
        kill_one(server)
        assert [successes(server) for _ in range(10)] == [[40]] * 10
        for _ in range(5):
            data_of(infer(server.url, [1, 64]))
        assert [successes(server) for _ in range(10)] == [[45]] * 10


class Load:
    """Clients that ask until they are told to stop, and keep every answer."""

    def __init__(self, server, clients=4):
        self._server = server
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        self._clients = [self._pool.submit(self._ask) for _ in range(clients)]

    def _ask(self):
        answers = []
        while not self._stop.is_set():
            answers.append(tuple(data_of(infer(self._server.url, [1, 64]))))
        return answers

    def stop(self):
        """All answers; raises what a client raised."""
        self._stop.set()
        self._pool.shutdown()
        return [answer for client in self._clients for answer in client.result()]


def reload(server):
    """SIGHUP; returns when all workers are new ones."""
    before = set(server.workers())
    os.kill(server.pid, signal.SIGHUP)
    wait_for(lambda: len(server.workers()) == len(before) and not before & set(server.workers()), 40)


@pytest.mark.parametrize("arguments", WORKERS)
def test_98_no_request_fails_while_models_are_replaced(tmp_path, arguments):
    models = processes.repository(tmp_path / "models", CASE_MODEL)
    path = models / "m" / "model.onnx"
    versions = [path.read_bytes(), processes.doubled(path)]
    known = {tuple(np.float32(expected(version))) for version in versions}
    with Server(tmp_path, *arguments, models=models, workers=2) as server:
        load, resident = Load(server), []
        for turn in range(1, 11):
            processes.replace_file(path, versions[turn % 2])
            reload(server)
            resident.append(processes.resident_bytes(server.pid))
        answers = load.stop()
        assert {tuple(np.float32(answer)) for answer in answers} == known
    assert resident[-1] <= resident[0] + 20 * MEGABYTE


def state(server):
    _, _, body = server.post("/v2/repository/index", b"")
    return {row["name"]: (row["state"], row["reason"]) for row in json.loads(body)}


def test_98_a_cut_file_is_a_state_with_its_reason_and_others_go_on(tmp_path):
    models = processes.repository(tmp_path / "models", CASE_MODEL)
    processes.repository(models, CASE_MODEL, name="other")
    path = models / "m" / "model.onnx"
    whole = path.read_bytes()
    with Server(tmp_path, models=models, workers=2) as server:
        processes.replace_file(path, whole[: len(whole) // 2])
        reload(server)
        wait_for(lambda: state(server)["m"][0] == "UNAVAILABLE")
        assert "cut off" in state(server)["m"][1]
        assert server.status("/v2/health/ready") == 503
        assert infer(server.url, [1, 64]).status_code == 503
        assert len(data_of(infer(server.url, [1, 64], "other"))) == 64
        processes.replace_file(path, whole)
        reload(server)
        wait_for(lambda: server.status("/v2/health/ready") == 200)
        assert len(data_of(infer(server.url, [1, 64]))) == 64
