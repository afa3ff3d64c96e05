import os
import queue
import signal
import socket
import struct
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from service.host import affinity, place
from service.host.board import Deal, State
from service.host.plan import Lane, Plan, make_plan
from service.host.topology import read_machine
from service.prefork import hooks
from service.prefork.lanes import Lanes

CPUS = frozenset(os.sched_getaffinity(0))


class Log:
    def __init__(self):
        self.lines = []

    def info(self, text, *values):
        self.lines.append(text % values)

    warning = info


@pytest.fixture
def lanes(monkeypatch):
    """The master's lanes, new ones for each test."""
    monkeypatch.setattr(hooks, "LANES", Lanes())
    return hooks.LANES


@pytest.fixture
def newborn(monkeypatch):
    """A process like a new worker; masks and handlers are restored."""
    for name, value in (("pid", 0), ("place", None), ("is_draining", False)):
        monkeypatch.setattr(place._Held, name, value)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
    affinity.pin(os.getpid(), CPUS)


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    cfg = Config()
    cfg.set("config", str(tmp_path / "none.py"))
    return SimpleNamespace(
        WORKERS={}, log=Log(), pid=-1, master_pid=0, LISTENERS=[], cfg=cfg, SIG_QUEUE=queue.SimpleQueue(), reexec_pid=0
    )


def worker(age, pid="[booting]"):
    return SimpleNamespace(age=age, pid=pid, cfg=SimpleNamespace(timeout=30))


def test_new_workers_get_the_lanes_in_order(lanes, server):
    hooks.nworkers_changed(server, 2, None)
    for age in (1, 2):
        new = worker(age)
        hooks.pre_fork(server, new)
        server.WORKERS[age] = new
    assert [(one.seat.slot, one.seat.lane) for one in server.WORKERS.values()] == [(0, 0), (1, 1)]
    assert lanes.board.read_deal(1) == Deal(1, 1, lanes.plan.lanes[1].threads)


def test_a_new_number_of_workers_moves_the_living(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    one = worker(1)
    hooks.pre_fork(server, one)
    server.WORKERS[1] = one
    one.pid = os.getpid()
    lanes.board.write_state(0, one.pid, State.READY)
    try:
        hooks.nworkers_changed(server, len(CPUS) + 1, 1)
        masks = set(affinity.read_masks(os.getpid()).values())
    finally:
        affinity.pin(os.getpid(), CPUS)
    assert masks == {frozenset(lanes.plan.lanes[0].cpus)}
    assert lanes.board.read_deal(0) == Deal(2, 0, 1)


def test_the_same_number_leaves_every_lane_as_it_is(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    hooks.nworkers_changed(server, 1, 1)
    assert lanes.generation == 1


def test_no_workers_leave_the_lanes_to_those_that_retire(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    hooks.nworkers_changed(server, 0, 1)
    assert len(lanes.plan.lanes) == 1


def test_a_living_worker_that_is_gone_does_not_hold_up_the_others(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    gone = worker(1)
    hooks.pre_fork(server, gone)
    server.WORKERS[1], gone.pid = gone, 2**22 + 1
    lanes.board.write_state(0, gone.pid, State.READY)
    hooks.nworkers_changed(server, 2, 1)
    assert len(lanes.plan.lanes) == 2


def test_the_plan_is_logged_with_lanes_and_reasons(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    hooks.on_starting(server)
    plan = make_plan(read_machine(), 1)
    assert server.log.lines[0].startswith("Lane 0: CPUs ")
    assert [line.removeprefix("Plan: ") for line in server.log.lines[1:]] == [*plan.warnings, *plan.reasons]


@pytest.mark.parametrize("hook", [hooks.child_exit, hooks.worker_exit])
def test_a_dead_workers_slot_is_free_and_its_live_gauges_are_gone(lanes, server, tmp_path, hook):
    server.pid = os.getpid()
    hooks.nworkers_changed(server, 1, None)
    one = worker(1)
    hooks.pre_fork(server, one)
    lanes.board.write_state(0, 4711, State.READY)
    gauge = tmp_path / f"gauge_livesum_{server.pid}-0.db"
    gauge.touch()
    hook(server, one)
    assert lanes.board.living() == ()
    assert not gauge.exists()


def test_accepted_connections_give_up_on_silent_clients(server):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server.LISTENERS = [SimpleNamespace(sock=sock)]
        hooks.listen(server)
        with socket.create_connection(sock.getsockname()), sock.accept()[0] as accepted:
            assert struct.unpack("ll", accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)) == (10, 0)


def seated(server, lanes, age=1):
    """A worker that the master has seated and forked: this process."""
    hooks.nworkers_changed(server, len(CPUS), None)
    one = worker(age)
    hooks.pre_fork(server, one)
    server.WORKERS[age] = one
    hooks.post_fork(server, one)
    one.pid = os.getpid()
    return one


@pytest.mark.usefixtures("newborn")
def test_a_new_worker_pins_itself_and_has_its_place(lanes, server):
    seated(server, lanes)
    lane = lanes.plan.lanes[0]
    assert os.sched_getaffinity(0) == set(lane.cpus)
    assert place.current() == place.Place(0, "-1-0", lane.cpus, lane.threads, lanes.board, 1, 30.0, lanes.meters)
    assert lanes.board.read(0).state is State.BOOTING


@pytest.mark.usefixtures("newborn")
def test_a_worker_is_ready_once_its_sessions_are_open(lanes, server):
    one = seated(server, lanes)
    states = []
    one.wsgi = SimpleNamespace(pinion_open=lambda: states.append(lanes.board.read(0).state))
    hooks.post_worker_init(one)
    assert [*states, lanes.board.read(0).state] == [State.BOOTING, State.READY]


@pytest.mark.usefixtures("newborn")
def test_an_application_without_sessions_is_ready_at_once(lanes, server):
    one = seated(server, lanes)
    one.wsgi = object()
    hooks.post_worker_init(one)
    assert lanes.board.read(0).state is State.READY


@pytest.mark.usefixtures("newborn")
def test_sigterm_drains_before_the_worker_is_told(lanes, server):
    one = seated(server, lanes)
    one.wsgi = object()
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(lanes.board.read(0).state))
    hooks.post_worker_init(one)
    os.kill(os.getpid(), signal.SIGTERM)
    assert told == [State.DRAINING]


@pytest.mark.usefixtures("newborn")
def test_a_signal_that_came_before_the_workers_handlers_is_not_lost(lanes, server):
    one = seated(server, lanes)
    one.wsgi = object()
    told = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    for number in (signal.SIGHUP, signal.SIGTERM):
        server.SIG_QUEUE.put(number)
    hooks.post_worker_init(one)
    assert told == [signal.SIGTERM]
    assert lanes.board.read(0).state is State.DRAINING


@pytest.mark.usefixtures("newborn")
@pytest.mark.parametrize("stop", [lambda server, one: hooks.worker_int(one), hooks.worker_exit])
def test_a_worker_that_stops_says_so(lanes, server, stop):
    stop(server, seated(server, lanes))
    assert lanes.board.read(0).state is State.DRAINING


@pytest.mark.usefixtures("newborn")
def test_cores_that_went_away_are_a_warning_and_no_end(lanes, server):
    hooks.nworkers_changed(server, 1, None)
    lanes.plan = Plan((Lane((1000,), 1),), (), ())
    one = worker(1)
    hooks.pre_fork(server, one)
    hooks.post_fork(server, one)
    assert server.log.lines == ["Worker [booting] runs unpinned: CPUs 1000: [Errno 22] Invalid argument"]
    assert lanes.board.read(0).state is State.BOOTING


@pytest.mark.usefixtures("newborn")
def test_a_living_worker_that_cannot_be_moved_is_a_warning(lanes, server, monkeypatch):
    seated(server, lanes)

    def refuse(pid, cpus):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(affinity, "pin", refuse)
    hooks.nworkers_changed(server, len(CPUS) + 1, len(CPUS))
    monkeypatch.undo()
    assert f"Worker {os.getpid()} keeps its cores" in server.log.lines[0]
