import dataclasses
import threading

import numpy as np
import pytest

from service.errors import RefusedByModel
from service.schedule.merging import Curve
from service.schedule.padded_batcher import PaddedBatcher, PaddedMerging
from service.schedule.padding import PaddedInput, Padding, join, part
from service.tensors import FP32, INT64, TensorSpec

INPUTS = (
    TensorSpec("ids", INT64, ("batch", "length"), "tensor(int64)"),
    TensorSpec("mask", FP32, ("batch", "length"), "tensor(float)"),
    TensorSpec("bias", FP32, ("batch", None), "tensor(float)"),
)
OUTPUTS = ("tokens", "pairs", "text")
PADDING = Padding(
    inputs=(PaddedInput("ids", 1, np.int64(9)), PaddedInput("mask", 1, np.float32(0))),
    output_axes={"tokens": (1,), "pairs": (1, 2), "text": ()},
    max_waste=0.5,
    worth_positions=1000.0,
)


class Reader:
    """A model of texts that refuses 13, and remembers the shapes and numbers it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, feeds, outputs):
        ids, mask = feeds["ids"], feeds["mask"]
        self.seen.append(feeds)
        if (ids == 13).any():
            raise RefusedByModel("13")
        made = {
            "tokens": ids * 2,
            "pairs": ids[:, :, None] * ids[:, None, :],
            "text": (ids * mask).sum(axis=1) + feeds["bias"][:, 0],
        }
        return [made[name] for name in outputs]

    @property
    def shapes(self):
        return [feeds["ids"].shape for feeds in self.seen]


def make(model, limit=64, **changed):
    padding = dataclasses.replace(PADDING, **changed)
    curve = Curve(merges=True, reason="", best_rows=8, padding=padding)
    return PaddedBatcher(model, PaddedMerging(INPUTS, OUTPUTS, curve, limit), None, padding)


def text(length, rows=1, first=20):
    ids = np.arange(first, first + rows * length).reshape(rows, length)
    return {"ids": ids, "mask": np.ones((rows, length), np.float32), "bias": np.full((rows, 1), 0.5, np.float32)}


def assert_own(batcher, ticket):
    """The answer of a request is the one it gets alone, in its own shapes."""
    for found, expected in zip(batcher.finish(ticket), Reader()(ticket.feeds, ticket.outputs), strict=True):
        assert found.shape == expected.shape
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, expected)


def assert_all_own(batcher, lengths):
    """So are those of texts of these lengths, handed in together."""
    for ticket in [batcher.submit(text(length), OUTPUTS) for length in lengths]:
        assert_own(batcher, ticket)


@pytest.mark.parametrize("lengths", [(2, 5, 3), (5, 2, 3), (3, 2, 5), (3, 3, 3), (1, 1, 2)])
def test_requests_of_different_lengths_share_a_run_and_get_their_own_shapes(lengths):
    model = Reader()
    batcher = make(model)
    tickets = [batcher.submit(text(length, rows, 20 * rows), OUTPUTS) for rows, length in enumerate(lengths, 1)]
    for ticket in reversed(tickets):
        assert_own(batcher, ticket)
    assert model.shapes == [(6, max(lengths))]
    assert [ticket.batch_rows for ticket in tickets] == [6, 6, 6]
    assert sum(ticket.leads for ticket in tickets) == 1


def test_what_fills_up_is_each_inputs_own_value_and_nothing_else_is_touched():
    model = Reader()
    batcher = make(model)
    tickets = [batcher.submit(text(length, first=1), OUTPUTS) for length in (3, 2)]
    batcher.finish(tickets[0])
    (feeds,) = model.seen
    assert feeds["ids"].tolist() == [[1, 2, 3], [1, 2, 9]]
    assert feeds["mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert feeds["bias"].tolist() == [[0.5], [0.5]]
    assert {name: array.dtype for name, array in feeds.items()} == {
        "ids": np.int64,
        "mask": np.float32,
        "bias": np.float32,
    }


def test_more_padding_than_allowed_is_not_run_the_nearest_lengths_go_together():
    model = Reader()
    batcher = make(model, max_waste=0.2)
    assert_all_own(batcher, (2, 20, 8, 9, 3, 18))
    assert model.shapes == [(2, 3), (2, 20), (2, 9)]


def test_a_run_saved_must_be_worth_its_padding():
    model = Reader()
    batcher = make(model, worth_positions=4.0)
    # All of length 8 together cost 6 positions more than a run of their own would.
    assert_all_own(batcher, (10, 8, 8, 8, 9, 10))
    assert model.shapes == [(3, 10), (3, 8)]


def test_a_length_is_not_torn_apart_by_the_limit_of_rows():
    model = Reader()
    batcher = make(model, limit=4)
    assert_all_own(batcher, (10, 9, 9, 9, 9, 8))
    assert model.shapes == [(2, 10), (4, 9)]


def test_its_own_length_fills_the_run_up_to_the_limit():
    model = Reader()
    batcher = make(model, limit=2)
    assert_all_own(batcher, (5, 5, 5))
    assert model.shapes == [(2, 5), (1, 5)]


def test_a_request_larger_than_the_limit_runs_in_parts():
    model = Reader()
    batcher = make(model, limit=4)
    assert_own(batcher, batcher.submit(text(3, rows=6), OUTPUTS))
    assert model.shapes == [(4, 3), (2, 3)]


def test_other_shapes_and_other_outputs_are_not_mixed():
    model = Reader()
    batcher = make(model)
    wide = {**text(3), "bias": np.zeros((1, 2), np.float32)}
    tickets = [batcher.submit(text(2), OUTPUTS), batcher.submit(wide, OUTPUTS), batcher.submit(text(3), ("text",))]
    for ticket in tickets:
        assert_own(batcher, ticket)
    assert len(model.seen) == 3


def test_an_empty_text_and_one_whose_inputs_differ_in_length_run_alone():
    model = Reader()
    batcher = make(model)
    odd = {**text(3), "mask": np.ones((1, 1), np.float32)}
    empty_mask = {**text(1), "mask": np.ones((1, 0), np.float32)}
    tickets = [batcher.submit(feeds, ("tokens",)) for feeds in (odd, text(0), empty_mask, text(3), text(2))]
    for ticket in (*tickets[:2], *tickets[3:]):
        assert_own(batcher, ticket)
    assert model.shapes == [(1, 3), (1, 0), (2, 3)]
    assert tickets[2].key is None


def test_a_bad_row_fails_only_its_own_caller():
    model = Reader()
    batcher = make(model)
    tickets = [batcher.submit(text(length, first=first), OUTPUTS) for length, first in ((2, 1), (3, 12), (4, 20))]
    assert_own(batcher, tickets[0])
    with pytest.raises(RefusedByModel):
        batcher.finish(tickets[1])
    assert_own(batcher, tickets[2])
    assert model.shapes == [(3, 4), (1, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize("wrong", ["rows", "length", "rank"])
def test_a_run_whose_outputs_have_other_shapes_is_repeated_one_by_one(wrong):
    def model(feeds, outputs):
        tokens = Reader()(feeds, ("tokens",))[0]
        if len(tokens) == 1:
            return [tokens]
        return [{"rows": tokens[:1], "length": tokens[:, :-1], "rank": tokens[:, 0]}[wrong]]

    batcher = make(model)
    for ticket in [batcher.submit(text(length), ("tokens",)) for length in (2, 3)]:
        assert_own(batcher, ticket)
        assert ticket.batch_rows == 1


def test_threads_combine_and_nobody_gets_anothers_rows():
    started = threading.Barrier(8)
    batcher = make(Reader())
    failures = []

    def caller(base):
        started.wait()
        for step in range(100):
            try:
                assert_own(batcher, batcher.submit(text(1 + (base + step) % 5, first=100 * base + 20), OUTPUTS))
            except AssertionError as wrong:
                failures.append(wrong)

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_texts_and_inner_axes_are_filled_up_and_cut_too():
    padding = Padding((PaddedInput("words", 2, "-"),), {"words": (2,)}, 1.0, 1.0)
    shorter, longer = np.array([[["a"], ["b"]]], object), np.array([[["c", "d"], ["e", "f"]]], object)
    joined = join([{"words": shorter}, {"words": longer}], padding)["words"]
    assert joined.tolist() == [[["a", "-"], ["b", "-"]], [["c", "d"], ["e", "f"]]]
    (first,), (second,) = part([joined], ("words",), [(1, 1), (1, 2)], padding)
    assert first.tolist() == shorter.tolist()
    assert second.tolist() == longer.tolist()
