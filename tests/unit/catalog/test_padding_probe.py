import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import dataclasses

import numpy as np
import pytest
from onnx import TensorProto

from service.catalog.config import load_config
from service.catalog.layout import scan
from service.catalog.model import Source, open_model
from service.catalog.padding_probe import probe_padding
from service.catalog.padding_table import PaddingTable, fitted, misfits
from service.engine.options import EngineOptions
from service.engine.session import open_session
from service.errors import ModelLoadError, RefusedByModel
from service.schedule.merging import Curve
from service.schedule.padding import PaddedInput
from service.tensors import BF16, BOOL, BYTES, FP16, FP32, INT64, UINT8, TensorSpec
from tests.data.text_models import save

IDS = PaddedInput("input_ids", 1, 0)
TABLE = PaddingTable((IDS,), "attention_mask")
MERGES = Curve(merges=True, reason="merged: it pays", best_rows=8)
# The calls of kernels are most of a run: one saved is worth a dozen positions, however busy the machine.
NARROW = {"width": 16, "inner": 32, "layers": 6}


def found_for(tmp_path, table=TABLE, curve=MERGES, **wanted):
    session = open_session(save(tmp_path, "m", "", **wanted), EngineOptions(), 1)
    assert misfits(table, session.inputs) == []
    return probe_padding(session.run, session.inputs, session.outputs, table, curve)


@pytest.mark.parametrize("mask", [TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL])
def test_a_model_that_heeds_its_mask_is_padded(tmp_path, mask):
    found = found_for(tmp_path, dtype=mask, **NARROW)
    assert found.padding_reason.startswith("padded: at most 25% of a run is padding, and ")
    assert dict(found.padding.output_axes) == {"tokens": (1,), "text": ()}
    assert [(padded.name, padded.axis) for padded in found.padding.inputs] == [("input_ids", 1), ("attention_mask", 1)]
    assert found.padding.worth_positions >= 2
    assert found.deviation < 1e-4
    assert dataclasses.replace(found, padding=None, padding_reason="", deviation=0.0) == MERGES


@pytest.mark.parametrize("wanted", [{"heeds_mask": False}, {"pooling": "last"}], ids=["heedless", "last position"])
def test_a_model_whose_rows_see_the_padding_is_not(tmp_path, wanted):
    found = found_for(tmp_path, **NARROW, **wanted)
    assert found.padding is None
    assert found.padding_reason.startswith("not padded: with rows of other lengths, row ")
    assert "differs in a batch by" in found.padding_reason


def test_without_the_mask_nothing_tells_the_padding(tmp_path):
    found = found_for(tmp_path, PaddingTable((IDS, PaddedInput("attention_mask", 1, 1))), **NARROW)
    assert found.padding is None
    assert "differs in a batch" in found.padding_reason


def test_a_model_that_refuses_what_fills_it_up_is_not_padded(tmp_path):
    found = found_for(tmp_path, PaddingTable((PaddedInput("input_ids", 1, 100_000),), "attention_mask"))
    assert found.padding is None
    assert found.padding_reason.startswith("not padded: the test at load could not run (")


def test_what_is_not_merged_is_not_padded_and_nothing_runs():
    def run(feeds, outputs):
        raise AssertionError

    found = probe_padding(run, (), (), TABLE, Curve(merges=False, reason="not merged: exact = true"))
    assert found.padding is None
    assert found.padding_reason == "not padded, since not merged: exact = true"


X, Y = (TensorSpec(name, FP32, ("n", "length"), "tensor(float)") for name in "xy")
ONLY_X = PaddingTable((PaddedInput("x", 1, 0.0),))


def probed(model):
    return probe_padding(lambda feeds, outputs: [model(feeds["x"])], [X], [Y], ONLY_X, MERGES)


def test_only_the_shortest_or_longest_row_may_see_it():
    """Rows of other lengths than the extremes keep their answers here."""
    for extreme in (1, 32):

        def model(x, extreme=extreme):
            lengths = (x != 0).sum(axis=1, keepdims=True)
            return np.where((lengths == extreme) & (x.shape[1] + len(x) != extreme + 1), x * 2, x)

        found = probed(model)
        assert (found.padding, "differs in a batch" in found.padding_reason) == (None, True)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            lambda x: x[:, 1:],
            "axis 1 of output 'y' has lengths [0, 4, 8, 16, 31] for [1, 5, 9, 17, 32]",
        ),
        (lambda x: x if len(x) > 1 else x[:0], "output 'y' has another shape when its row is padded"),
        (lambda x: x.sum(), "output 'y' has no row for each row of the input"),
        (lambda x: x if len(x) < 2 else x[:, :-1], "padded rows together have outputs of other lengths than alone"),
    ],
    ids=["shorter", "rows", "scalar", "together"],
)
def test_outputs_of_other_lengths_are_not_padded(model, words):
    found = probed(model)
    assert found.padding is None
    assert words in found.padding_reason


def test_padding_that_costs_more_than_it_saves_is_off():
    def model(x):
        return x + 0.0 * sum(range(x.size**2))

    assert probed(model).padding_reason == "not padded: it would cost more than the runs that it saves"


def test_a_model_of_short_texts_only_is_tried_with_those():
    longest = []

    def model(x):
        if x.shape[1] > 8:
            raise RefusedByModel("too long")
        longest.append(x.shape[1])
        return x

    assert "could not run" not in probed(model).padding_reason
    assert max(longest) == 8


@pytest.mark.parametrize(
    ("datatype", "value", "held"),
    [
        (INT64, 5, 5),
        (INT64, None, 0),
        (INT64, 2**60 + 1, 2**60 + 1),
        (UINT8, 255, 255),
        (FP32, -1.5, -1.5),
        (FP32, float("-inf"), float("-inf")),
        (BF16, 1, 0x3F80),
        (BOOL, True, True),
        (BYTES, "[PAD]", "[PAD]"),
        (BYTES, None, ""),
    ],
)
def test_a_value_becomes_the_inputs_own_type(datatype, value, held):
    spec = TensorSpec("x", datatype, ("n", None), "")
    table = PaddingTable((PaddedInput("x", 1, value),))
    assert misfits(table, [spec]) == []
    (padded,) = fitted(table, [spec])
    assert padded.value == held
    assert datatype is BYTES or padded.value.dtype == datatype.dtype


@pytest.mark.parametrize(
    ("datatype", "value"),
    [(INT64, 0.5), (UINT8, 256), (UINT8, -1), (INT64, 2**63), (INT64, float("nan")), (INT64, "a"), (FP16, 1e6),
     (BOOL, 2), (BYTES, 0), (BYTES, 3), (FP32, "1")],
)  # fmt: skip
def test_a_value_that_the_input_cannot_hold_is_told(datatype, value):
    spec = TensorSpec("x", datatype, ("n", None), "")
    (told,) = misfits(PaddingTable((PaddedInput("x", 1, value),)), [spec])
    assert told == f"`padding`: input 'x' is of {datatype.name}, expected a `value` of that type, got {value!r}"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            PaddingTable((PaddedInput("z", 1, 0),)),
            "`padding` names the input 'z'; the model needs ids, mask, types, words",
        ),
        (PaddingTable((PaddedInput("ids", 2, 0),)), "input 'ids' has 2 axes, expected an axis 2 (the batch is axis 0)"),
        (PaddingTable((PaddedInput("mask", 1, 0),)), "input 'mask' has a fixed length of 8 on axis 1"),
        (PaddingTable((PaddedInput("ids", 1, 0),)), "input 'types' has the dimension 'length', too; expected it in"),
        (PaddingTable((PaddedInput("ids", 1, 0),), "words"), "input 'words' is the mask, expected one of numbers"),
        (PaddingTable((PaddedInput("given", 1, 0),)), "names the input 'given'; the model needs ids"),
    ],
)
def test_what_the_model_contradicts_is_told(table, told):
    inputs = [
        TensorSpec("ids", INT64, ("n", "length"), ""),
        TensorSpec("mask", INT64, ("n", 8), ""),
        TensorSpec("types", INT64, ("n", "length"), ""),
        TensorSpec("words", BYTES, ("n", None), ""),
        TensorSpec("given", FP32, ("n", None), "", optional=True),
    ]
    assert [told in sentence for sentence in misfits(table, inputs)] == [True]


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (
            "\n[padding]\ninputs = {ids = {}}\n",
            "model.toml:2: `padding` names the input 'ids'; the model needs input_ids,",
        ),
        ("[padding]\ninputs = {input_ids = {}}\n", "model.toml:1: `padding`: input 'attention_mask' has the dimension"),
    ],
)
def test_a_table_that_does_not_fit_the_model_is_told_with_its_line(tmp_path, toml, told):
    path = save(tmp_path, "m", toml)
    loaded = load_config(scan(tmp_path, None).models["m"])
    with pytest.raises(ModelLoadError) as found:
        open_model(Source("m", "1", path, loaded), 1)
    assert str(found.value).startswith(told)
