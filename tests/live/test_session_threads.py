"""Threads of real workers with real sessions follow the plan when it changes."""

import os
import signal
from pathlib import Path

import pytest

from service.host.plan import make_plan
from service.host.topology import read_machine
from tests.live.server import Server, wait_for

CORES = len(os.sched_getaffinity(0))


def masks(pid):
    """CPUs of every thread of a process."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        line = next(line for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list"))
        found.add(line.split(":")[1].strip())
    return found


def session_threads(server):
    return {int(server.json(f"/v2/models/{name}")["properties"]["intra_op_threads"]) for name in ("iris", "digits")}


@pytest.mark.skipif(CORES < 2, reason="needs two CPUs")
@pytest.mark.parametrize("arguments", [(), ("-k", "gthread")], ids=["gather", "gthread"])
def test_sessions_follow_the_lane(tmp_path, arguments):
    with Server(tmp_path, *arguments, workers=1) as server:
        wide = make_plan(read_machine(), 1).lanes[0].threads
        assert session_threads(server) == {wide}
        os.kill(server.pid, signal.SIGTTIN)
        wait_for(lambda: len(server.workers()) == 2)
        narrow = make_plan(read_machine(), 2).lanes[0].threads
        wait_for(lambda: all(session_threads(server) == {narrow} for _ in range(8)))
        lanes = wait_for(lambda: (found := [masks(pid) for pid in server.workers()]) and all(map(len, found)) and found)
        assert all(len(lane) == 1 for lane in lanes)
        assert lanes[0].isdisjoint(lanes[1])
        os.kill(server.pid, signal.SIGTTOU)
        wait_for(lambda: len(server.workers()) == 1)
        wait_for(lambda: all(session_threads(server) == {wide} for _ in range(8)))


def test_no_more_threads_than_the_plan_the_loop_and_the_watchdog(tmp_path):
    with Server(tmp_path, workers=CORES) as server:
        lanes = make_plan(read_machine(), CORES).lanes
        # A session of n threads computes on n - 1 of its own and on the loop's; two models are open.
        planned = sorted(2 + 2 * (lane.threads - 1) for lane in lanes)

        def counts():
            return sorted(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in server.workers())

        wait_for(lambda: counts() == planned)


def test_a_setting_that_the_worker_does_not_offer_ends_the_start(tmp_path):
    server = Server(tmp_path, "--proxy-protocol")
    with pytest.raises(RuntimeError, match="ended with 1"):
        server.start()
    assert "proxy_protocol" in server.log()
    assert "Traceback" not in server.log()


def test_a_repository_that_is_not_there_ends_the_start(tmp_path):
    server = Server(tmp_path, models="/nowhere/at/all")
    with pytest.raises(RuntimeError, match="ended with 1"):
        server.start()
    assert "PINION_MODELS: expected a folder with models, got /nowhere/at/all" in server.log()
