import threading
import time

import numpy as np
import pytest

from service.errors import DeadlinePassed, RefusedByModel, RunFailed
from service.schedule.batcher import Batcher
from service.schedule.merging import Curve, Merging
from service.tensors import FP32, TensorSpec

X = TensorSpec("x", FP32, ("batch", 2), "tensor(float)")
FREE = TensorSpec("x", FP32, ("batch", None), "tensor(float)")
MERGES = Curve(merges=True, reason="", best_rows=8)


class Doubler:
    """A model that doubles, refuses 13 and counts its runs."""

    def __init__(self):
        self.rows = []

    def __call__(self, feeds, outputs):
        x = feeds["x"]
        self.rows.append(len(x))
        if (x == 13).any():
            raise RefusedByModel("13")
        return [x * 2 for _ in outputs]


def feed(*rows):
    return {"x": np.array([[row, row + 0.5] for row in rows], np.float32)}


def make(model, spec=X, curve=MERGES, limit=None):
    return Batcher(model, Merging([spec], ("y",), curve, limit))


def test_what_waits_runs_together_and_everyone_gets_its_own():
    model = Doubler()
    batcher = make(model)
    tickets = [batcher.submit(feed(n), ("y",)) for n in range(5)]
    assert model.rows == []
    for n in (3, 0, 1, 2, 4):
        assert batcher.finish(tickets[n])[0].tolist() == [[2 * n, 2 * n + 1]]
    assert model.rows == [5]
    assert [ticket.batch_rows for ticket in tickets] == [5] * 5
    assert sum(ticket.leads for ticket in tickets) == 1


def test_the_limit_counts_rows_and_later_requests_run_next():
    model = Doubler()
    batcher = make(model, limit=4)
    tickets = [batcher.submit(feed(*range(3)), ("y",)) for _ in range(2)] + [batcher.submit(feed(9), ("y",))]
    assert [len(batcher.finish(ticket)[0]) for ticket in tickets] == [3, 3, 1]
    assert model.rows == [4, 3]


def test_a_request_larger_than_the_limit_runs_in_parts():
    model = Doubler()
    batcher = make(model, limit=4)
    ticket = batcher.submit(feed(*range(10)), ("y",))
    assert batcher.finish(ticket)[0][:, 0].tolist() == [2 * n for n in range(10)]
    assert model.rows == [4, 4, 2]


def test_a_bad_row_fails_only_its_own_caller():
    model = Doubler()
    batcher = make(model)
    tickets = [batcher.submit(feed(n), ("y",)) for n in (1, 13, 2)]
    assert batcher.finish(tickets[0])[0].tolist() == [[2, 3]]
    with pytest.raises(RefusedByModel):
        batcher.finish(tickets[1])
    assert batcher.finish(tickets[2])[0].tolist() == [[4, 5]]
    assert model.rows == [3, 1, 1, 1]


def test_different_shapes_and_outputs_are_not_mixed():
    model = Doubler()
    batcher = make(model, FREE)
    narrow = [batcher.submit({"x": np.ones((1, 2), np.float32)}, ("y",)) for _ in range(2)]
    wide = [batcher.submit({"x": np.ones((1, 3), np.float32)}, ("y",)) for _ in range(2)]
    twice = batcher.submit({"x": np.ones((1, 2), np.float32)}, ("y", "z"))
    assert [batcher.finish(ticket)[0].shape for ticket in (*narrow, *wide)] == [(1, 2)] * 2 + [(1, 3)] * 2
    assert len(batcher.finish(twice)) == 2
    assert model.rows == [2, 2, 1]


def test_a_model_that_does_not_merge_runs_one_by_one():
    model = Doubler()
    batcher = make(model, curve=Curve(merges=False, reason="flat"))
    tickets = [batcher.submit(feed(n), ("y",)) for n in range(3)]
    assert [batcher.finish(ticket)[0][0, 0] for ticket in tickets] == [0, 2, 4]
    assert model.rows == [1, 1, 1]


def test_empty_requests_run_alone():
    model = Doubler()
    batcher = make(model)
    empty = batcher.submit({"x": np.zeros((0, 2), np.float32)}, ("y",))
    other = batcher.submit(feed(1), ("y",))
    assert batcher.finish(empty)[0].shape == (0, 2)
    assert batcher.finish(other)[0].shape == (1, 2)
    assert model.rows == [0, 1]


def test_a_withdrawn_ticket_is_not_run():
    model = Doubler()
    batcher = make(model)
    gone, stays = batcher.submit(feed(1), ("y",)), batcher.submit(feed(2), ("y",))
    assert batcher.withdraw(gone)
    batcher.finish(stays)
    assert not batcher.withdraw(stays)
    assert model.rows == [1]


@pytest.mark.parametrize("curve", [MERGES, Curve(merges=False, reason="")])
def test_what_is_part_of_the_run_that_is_on_cannot_be_withdrawn(curve):
    withdrawn = []

    def run(feeds, outputs):
        withdrawn.extend(batcher.withdraw(ticket) for ticket in tickets)
        return [feeds["x"]]

    batcher = make(run, curve=curve)
    tickets = [batcher.submit(feed(number), ("y",)) for number in range(3)]
    batcher.finish(tickets[0])
    assert withdrawn == ([False] * 3 if curve.merges else [False, True, True])


def test_a_withdrawn_ticket_can_still_be_finished():
    batcher = make(Doubler())
    ticket = batcher.submit(feed(4), ("y",))
    assert batcher.withdraw(ticket)
    assert not batcher.withdraw(ticket)
    assert batcher.finish(ticket)[0].tolist() == [[8, 9]]


def test_a_model_whose_output_has_other_rows_than_its_input_is_run_alone():
    runs = []

    def total(feeds, outputs):
        runs.append(len(feeds["x"]))
        return [feeds["x"].sum(axis=0, keepdims=True)]

    batcher = make(total)
    tickets = [batcher.submit(feed(n), ("y",)) for n in (1, 2)]
    assert [batcher.finish(ticket)[0][0, 0] for ticket in tickets] == [1, 2]
    assert runs == [2, 1, 1]


def test_threads_combine_and_nobody_gets_anothers_rows():
    started = threading.Barrier(8)
    failures = []

    def slow(feeds, outputs):
        return [feeds["x"] * 2]

    batcher = make(slow)

    def caller(base):
        started.wait()
        for step in range(200):
            value = base * 1000 + step
            got = batcher.finish(batcher.submit(feed(value), ("y",)))[0]
            if got.tolist() != [[value * 2, value * 2 + 1]]:
                failures.append((value, got))

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_failure_of_the_model_reaches_everyone_it_concerns():
    def broken(feeds, outputs):
        raise RunFailed("broken")

    batcher = make(broken)
    tickets = [batcher.submit(feed(n), ("y",)) for n in range(2)]
    for ticket in tickets:
        with pytest.raises(RunFailed):
            batcher.finish(ticket)


def test_a_request_waits_for_others_as_long_as_it_may_and_no_longer_than_its_run_needs():
    model = Doubler()
    batcher = Batcher(model, Merging([X], ("y",), MERGES, 3, delay_us=60_000_000))
    first = batcher.submit(feed(1), ("y",))
    assert 59e9 < batcher.patience_ns(first) <= 60e9
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(batcher.finish(first)))
    waiting.start()
    batcher.submit(feed(2), ("y",))
    assert batcher.patience_ns(first) > 0
    last = batcher.submit(feed(3), ("y",))
    waiting.join(30)
    assert not waiting.is_alive()
    assert batcher.patience_ns(last) == 0
    assert model.rows == [3]


def test_a_delay_that_is_over_runs_what_is_there():
    model = Doubler()
    batcher = Batcher(model, Merging([X], ("y",), MERGES, None, delay_us=1000))
    assert batcher.finish(batcher.submit(feed(1), ("y",)))[0].tolist() == [[2, 3]]
    assert model.rows == [1]


def test_nothing_waits_where_nothing_is_merged():
    batcher = Batcher(Doubler(), Merging([X], ("y",), Curve(merges=False, reason=""), None, delay_us=60_000_000))
    assert batcher.patience_ns(batcher.submit(feed(1), ("y",))) == 0


@pytest.mark.parametrize("parts", [10, 2])
def test_parts_of_a_model_whose_output_has_other_rows_are_not_glued(parts):
    """Its sum over all rows is one row; over the rows of a part it would be another."""
    batcher = make(lambda feeds, outputs: [feeds["x"].sum(axis=0, keepdims=True)], limit=4)
    ticket = batcher.submit(feed(*range(parts)), ("y",))
    assert batcher.finish(ticket)[0].tolist() == [[sum(range(parts)), sum(range(parts)) + parts / 2]]


def test_outputs_without_rows_end_nobodys_request():
    batcher = make(lambda feeds, outputs: [np.float32(len(feeds["x"]))])
    tickets = [batcher.submit(feed(*range(count)), ("y",)) for count in (1, 2, 3)]
    assert [float(batcher.finish(ticket)[0]) for ticket in tickets] == [1, 2, 3]


def test_a_ticket_that_has_waited_too_long_fails_and_its_neighbour_runs():
    model = Doubler()
    batcher = Batcher(model, Merging([X], ("y",), MERGES, None), timeout_s=0.05)
    late = batcher.submit(feed(1), ("y",))
    time.sleep(0.06)
    fresh = batcher.submit(feed(2), ("y",))
    with pytest.raises(DeadlinePassed, match=r"timeout_s of 0\.05"):
        batcher.finish(late)
    assert batcher.finish(fresh)[0].tolist() == [[4, 5]]
    assert model.rows == [1]
