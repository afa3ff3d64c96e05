import os
import socket
import time

import pytest

from service.host.board import Board, State
from service.prefork.balance import LARGEST_BYTES, Balance, LongRuns

PATH = "/v2/models/slow/infer"


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def worker(board, tmp_path):
    """Makes a worker's balance in a slot; all are closed at the end."""
    made = []

    def make(slot, state=State.READY):
        board.write_state(slot, os.getpid(), state)
        made.append(Balance(board, slot, tmp_path, "1"))
        for balance in made:
            balance.refresh()
        return made[-1]

    yield make
    for balance in made:
        balance.close()


@pytest.fixture
def pair():
    """Client's and server's end of a connection."""
    client, server = socket.socketpair()
    client.settimeout(5)
    with client, server:
        yield client, server


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * LARGEST_BYTES])
def test_a_connection_arrives_with_what_had_been_read(worker, pair, data):
    giver, taker = worker(0), worker(1)
    client, server = pair
    assert giver.hand_over(1, server, 3, data)
    server.close()
    given = taker.receive()
    with given.sock as sock:
        sock.send(b"it lives")
        assert (given.listener, given.data, client.recv(100)) == (3, data, b"it lives")
    assert taker.receive() is None


def test_more_than_a_datagram_takes_stays(worker, pair):
    giver, taker = worker(0), worker(1)
    assert not giver.hand_over(1, pair[1], 0, b"x" * (LARGEST_BYTES + 1))
    assert taker.receive() is None


def test_a_worker_that_is_gone_takes_nothing(worker, pair):
    giver, taker = worker(0), worker(1)
    # As after SIGKILL: the socket's end is gone, its name is still there, and so is the record on the board.
    taker.inbox.close()
    assert giver.idle_peer() == 1
    assert not giver.hand_over(1, pair[1], 0, b"data")
    pair[1].send(b"still ours")
    assert pair[0].recv(100) == b"still ours"


def test_the_successor_in_a_slot_takes_what_comes_after(worker, pair):
    giver, dead = worker(0), worker(1)
    dead.inbox.close()
    successor = worker(1)
    assert giver.hand_over(1, pair[1], 0, b"data")
    given = successor.receive()
    given.sock.close()
    assert given.data == b"data"


def test_a_full_inbox_loses_nothing(worker, pair):
    giver, taker = worker(0), worker(1)
    sent = 0
    while giver.hand_over(1, pair[1], 0, str(sent).encode()):
        sent += 1
        assert sent < 10_000
    received = []
    while (given := taker.receive()) is not None:
        given.sock.close()
        received.append(int(given.data))
    assert received == list(range(sent))
    assert giver.hand_over(1, pair[1], 0, b"room again")


def test_after_retiring_only_what_was_sent_before_arrives(worker, pair):
    giver, taker = worker(0), worker(1)
    assert giver.hand_over(1, pair[1], 0, b"before")
    taker.retire()
    assert not giver.hand_over(1, pair[1], 0, b"after")
    given = taker.receive()
    given.sock.close()
    assert given.data == b"before"


def test_the_idle_worker_with_the_fewest_connections_is_chosen(worker):
    giver, *others = [worker(slot) for slot in range(4)]
    for other, count in zip(others, (5, 2, 1), strict=True):
        other.connections(count)
    others[2].long_run(on=True)
    assert giver.idle_peer() == 2
    others[1].long_run(on=True)
    others[0].long_run(on=True)
    assert giver.idle_peer() is None


def test_who_has_just_been_given_one_is_not_given_another(worker, pair):
    giver, taker = worker(0), worker(1)
    assert giver.hand_over(1, pair[1], 0, b"data")
    assert giver.idle_peer() is None
    taker.receive().sock.close()
    time.sleep(0.01)
    assert giver.idle_peer() == 1


def test_who_does_not_take_what_it_was_given_is_not_given_more(worker, pair):
    giver, _ = worker(0), worker(1)
    assert giver.hand_over(1, pair[1], 0, b"data")
    time.sleep(0.01)
    assert giver.idle_peer() is None


@pytest.mark.parametrize("state", [State.EMPTY, State.BOOTING, State.DRAINING])
def test_only_ready_workers_are_asked(worker, board, state):
    giver, _ = worker(0), worker(1)
    board.write_state(1, os.getpid(), state)
    assert giver.idle_peer() is None


def test_a_worker_alone_keeps_everything(worker):
    alone = worker(0)
    alone.connections(100)
    alone.long_runs.learn(PATH, 1.0)
    assert (alone.leaves_it(), alone.idle_peer(), alone.expects_long(PATH)) == (False, None, False)


@pytest.mark.parametrize(
    ("own", "own_run", "other", "other_run", "leaves"),
    [
        (0, False, 0, False, False),
        (1, False, 0, False, True),
        (1, False, 1, False, False),
        (1, True, 1, False, True),
        (1, False, 0, True, False),
        (9, False, 0, True, True),
    ],
)
def test_a_connection_is_left_to_who_has_less_to_do(worker, own, own_run, other, other_run, leaves):
    mine, theirs = worker(0), worker(1)
    mine.connections(own)
    mine.long_run(on=own_run)
    theirs.connections(other)
    theirs.long_run(on=other_run)
    assert mine.leaves_it() is leaves


def test_workers_that_come_later_are_seen(worker, board, tmp_path):
    mine = worker(0)
    mine.connections(1)
    assert not mine.leaves_it()
    board.write_state(7, os.getpid(), State.READY)
    time.sleep(0.11)
    assert mine.leaves_it()


def test_the_load_on_the_board_is_what_was_told(worker, board):
    mine = worker(4)
    mine.connections(3)
    mine.long_run(on=True)
    assert (board.read_load(4).connections, board.read_load(4).running) == (3, True)
    mine.long_run(on=False)
    assert (board.read_load(4).connections, board.read_load(4).running) == (3, False)


@pytest.mark.parametrize(
    ("own", "others", "gives"),
    [
        (8, (8, 8), (None, 0)),
        (9, (6, 9), (None, 0)),
        (10, (10, 4), (2, 2)),
        (1000, (900, 990), (None, 0)),
        (1000, (0, 500), (1, 8)),
        (0, (50, 50), (None, 0)),
    ],
)
def test_what_is_given_to_a_worker_with_fewer_connections(worker, own, others, gives):
    mine, *theirs = [worker(slot) for slot in range(3)]
    mine.connections(own)
    for other, count in zip(theirs, others, strict=True):
        other.connections(count)
    assert mine.surplus() == gives


def test_a_worker_that_stops_gives_idle_connections_to_one_that_stays(worker, board, pair):
    stops, full, stays = (worker(slot) for slot in range(3))
    full.connections(5)
    assert stops.part_with(pair[1], 4)
    given = stays.receive()
    given.sock.close()
    assert (given.listener, given.data, full.receive()) == (4, b"", None)
    for slot in (1, 2):
        board.write_state(slot, os.getpid(), State.DRAINING)
    assert not stops.part_with(pair[1], 4)


def test_the_last_run_of_a_path_says_whether_the_next_is_long():
    runs = LongRuns()
    runs.learn(PATH, 0.02)
    runs.learn("/quick", 0.0001)
    assert (runs.expected(PATH), runs.expected("/quick"), runs.expected("/new")) == (True, False, False)
    runs.learn(PATH, 0.0001)
    assert not runs.expected(PATH)


def test_paths_that_callers_make_up_take_no_memory_without_end():
    runs = LongRuns()
    for number in range(1000):
        runs.learn(f"/{number}", 1.0)
    assert runs.expected("/999")
    assert sum(runs.expected(f"/{number}") for number in range(1000)) <= 256


def test_two_masters_that_share_a_folder_keep_their_workers_apart(tmp_path, pair):
    """As after SIGUSR2: the old master's worker in the same slot ends, the new one's still takes connections."""
    boards = [Board(), Board()]
    made = []
    for master, board in enumerate(boards):
        for slot in (0, 1):
            board.write_state(slot, os.getpid(), State.READY)
            made.append(Balance(board, slot, tmp_path, str(master)))
    old, _, giver, taker = made
    old.close()
    made[1].close()
    giver.refresh()
    assert giver.hand_over(1, pair[1], 0, b"x")
    given = taker.receive()
    given.sock.close()
    assert given.data == b"x"
    giver.close()
    taker.close()


def test_a_successor_is_one_that_boots_while_nobody_is_ready(worker, board):
    balance = worker(0, State.DRAINING)
    assert not balance.is_succeeded()
    board.write_state(5, 0, State.BOOTING)
    assert balance.is_succeeded()
    board.write_state(6, 1, State.READY)
    assert not balance.is_succeeded()
