import os

import pytest

from service.host.board import SLOTS, Board, Deal, Record, State


def test_an_unwritten_board_has_nobody():
    assert Board().living() == ()


def test_a_record_holds_what_was_written():
    board = Board()
    board.write_state(3, 4_194_304, State.BOOTING)
    board.write_deal(3, Deal(generation=70_000, lane=1023, threads=65_535))
    assert board.read(3) == Record(3, 4_194_304, State.BOOTING, Deal(70_000, 1023, 65_535))


def test_readiness_counts_only_the_ready():
    board = Board()
    for slot, state in enumerate((State.READY, State.BOOTING, State.DRAINING, State.READY)):
        board.write_state(slot, 100 + slot, state)
    assert [record.slot for record in board.living()] == [0, 1, 2, 3]
    assert [record.slot for record in board.ready()] == [0, 3]


def test_an_emptied_slot_is_nobodys():
    board = Board()
    board.write_state(0, 100, State.READY)
    board.write_state(0, 0, State.EMPTY)
    assert board.living() == ()


def test_records_do_not_touch_each_other():
    board = Board()
    for slot in range(SLOTS):
        board.write_state(slot, slot + 1, State.READY)
        board.write_deal(slot, Deal(1, slot, 2))
    assert [(record.pid, record.deal.lane) for record in board.ready()] == [(n + 1, n) for n in range(SLOTS)]


# A test runner may have threads; the child only writes and ends.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_writes_on_the_same_board():
    board = Board()
    pid = os.fork()
    if pid == 0:
        board.write_state(7, os.getpid(), State.READY)
        os._exit(0)
    os.waitpid(pid, 0)
    assert [(record.slot, record.pid) for record in board.ready()] == [(7, pid)]


@pytest.mark.parametrize("slot", [-1, SLOTS])
def test_a_slot_beyond_the_board_is_an_error_that_says_so(slot):
    with pytest.raises(IndexError, match="expected 0 to 1023; too many workers"):
        Board().read(slot)
