import os
import signal

import pytest

from service.host import place
from service.host.board import Board, Deal, State
from service.host.place import Place

CPUS = tuple(sorted(os.sched_getaffinity(0)))


@pytest.fixture(autouse=True)
def newborn(monkeypatch):
    """A process that has no place yet."""
    for name, value in (("pid", 0), ("place", None), ("is_draining", False)):
        monkeypatch.setattr(place._Held, name, value)


def test_without_hooks_a_process_has_the_machine_for_itself():
    here = place.current()
    assert (here.slot, here.board, here.metrics_id) == (None, None, str(os.getpid()))
    assert here.lane_cpus == CPUS
    assert place.current() is here


# A test runner may have threads; the child only looks and ends.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_place_of_its_own():
    place.take(Place(2, "77-2", (), 1, Board()))
    place.drain()
    pid = os.fork()
    if pid == 0:
        os._exit(place.current().metrics_id != str(os.getpid()) or place.draining())
    assert os.waitpid(pid, 0)[1] == 0


def test_the_place_that_was_given_is_kept_and_written_on_the_board():
    board = Board()
    given = Place(2, "77-2", CPUS[:1], 1, board)
    place.take(given)
    assert place.current() is given
    assert board.read(2).state is State.BOOTING
    place.ready()
    assert [(record.slot, record.pid) for record in board.ready()] == [(2, os.getpid())]


def test_a_new_deal_changes_lane_and_threads():
    board = Board()
    place.take(Place(0, "77-0", (), 4, board))
    board.write_deal(0, Deal(generation=1, lane=3, threads=2))
    here = place.current()
    assert (here.lane_cpus, here.threads, here.generation) == (CPUS, 2, 1)
    assert place.current() is here


@pytest.mark.parametrize("steps", [("drain", "ready"), ("ready", "drain")])
def test_a_worker_that_was_told_to_stop_is_never_ready(steps):
    board = Board()
    place.take(Place(0, "77-0", CPUS, 1, board))
    for step in steps:
        getattr(place, step)()
    assert place.draining()
    assert board.read(0).state is State.DRAINING


def test_drain_may_be_called_in_a_signal_handler():
    before = signal.signal(signal.SIGUSR1, lambda *_: place.drain())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert place.draining()
    finally:
        signal.signal(signal.SIGUSR1, before)
