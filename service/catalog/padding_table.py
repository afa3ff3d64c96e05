"""The table `[padding]`: inputs whose length varies, and what fills them up to the length of another request."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.catalog.readers import above_zero, each, table, whole
from service.catalog.rows import Fault, Faults, Row, read_table
from service.schedule.padding import PaddedInput
from service.tensors import BF16, BYTES, DataType, TensorSpec
from service.wire.narrowing import round_to_bf16

_MOST_AXES = 63
_MAX_WASTE = 0.25


@dataclass(frozen=True, slots=True)
class PaddingTable:
    """What `[padding]` says; the sentences of the rows say what each field does."""

    inputs: tuple[PaddedInput, ...]
    mask: str | None = None
    max_waste: float = _MAX_WASTE


def _fill(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError("a number, true, false or a text, as the input takes it")


def _share(value: Any) -> float:
    try:
        found = above_zero(value)
    except ValueError:
        found = 1.0
    if found >= 1:
        raise ValueError("a number above 0 and below 1")
    return found


PADDED_INPUT_ROWS = (
    Row("axis", "", "`1`", "The axis whose length varies, the batch being axis 0.", whole(1, _MOST_AXES)),
    Row("value", "", "`0`", 'What it is filled up with; a text for an input of BYTES, by default `""`.', _fill),
)


def _name(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("the name of an input")


def _inputs(value: Any) -> tuple[PaddedInput, ...]:
    found = each(lambda one: read_table(PADDED_INPUT_ROWS, table(one)))(value)
    if not found:
        raise ValueError("a table with at least one input, such as {input_ids = {}}")
    return tuple(PaddedInput(name, keys.get("axis", 1), keys.get("value")) for name, keys in found)


PADDING_ROWS = (
    Row(
        "inputs",
        "",
        "",
        "Every input whose length varies, such as `{input_ids = {axis = 1, value = 0}, token_type_ids = {}}`.",
        _inputs,
    ),
    Row(
        "mask",
        "",
        "none",
        "The input that says which positions are real, filled up with 0, on axis 1 unless `inputs` says another.",
        _name,
    ),
    Row(
        "max_waste",
        "share of a run's positions",
        f"`{_MAX_WASTE}`",
        "At most this much of a run is padding; requests whose lengths differ by more don't share one.",
        _share,
    ),
)


def padding(value: Any) -> PaddingTable:
    """Reader of the table."""
    found = PaddingTable(**read_table(PADDING_ROWS, table(value), required=("inputs",)))
    named = {padded.name: padded for padded in found.inputs}
    if found.mask is None or found.mask not in named:
        return found
    if named[found.mask].value:
        place = ("inputs", found.mask, "value")
        raise Faults([Fault(place, "expected 0, since it is the mask and what fills it up isn't real")])
    return found


def misfits(wanted: PaddingTable, inputs: Sequence[TensorSpec]) -> list[str]:
    """A sentence for everything in the table that the model's inputs contradict."""
    specs = {spec.name: spec for spec in inputs if not spec.optional}
    sentences = []
    for padded in _all_inputs(wanted):
        spec = specs.get(padded.name)
        if spec is None:
            sentences.append(f"`padding` names the input '{padded.name}'; the model needs {', '.join(specs) or 'none'}")
        elif (told := _misfit(padded, spec, wanted.mask)) is not None:
            sentences.append(f"`padding`: input '{padded.name}' {told}")
    return sentences or _forgotten(_all_inputs(wanted), specs.values())


def _misfit(padded: PaddedInput, spec: TensorSpec, mask: str | None) -> str | None:
    if spec.shape is None or len(spec.shape) <= padded.axis:
        shown = "an unknown rank" if spec.shape is None else f"{len(spec.shape)} axes"
        return f"has {shown}, expected an axis {padded.axis} (the batch is axis 0)"
    dim = spec.shape[padded.axis]
    if isinstance(dim, int):
        return f"has a fixed length of {dim} on axis {padded.axis}, expected a free one"
    if spec.name == mask and (spec.datatype is None or spec.datatype.kind == "bytes"):
        return "is the mask, expected one of numbers or booleans"
    try:
        _fill_of(padded.value, spec.datatype)
    except (ValueError, TypeError, OverflowError):
        kind = spec.onnx_type if spec.datatype is None else spec.datatype.name
        return f"is of {kind}, expected a `value` of that type, got {padded.value!r}"
    return None


def _forgotten(padded: Sequence[PaddedInput], specs: Iterable[TensorSpec]) -> list[str]:
    """Inputs that declare the same free dimension and aren't in the table."""
    shapes = {spec.name: spec.shape or () for spec in specs}
    dims = {dim for each in padded if isinstance(dim := shapes[each.name][each.axis], str)}
    named = {each.name for each in padded}
    return [
        f"`padding`: input '{name}' has the dimension '{dim}', too; expected it in `padding.inputs`"
        for name, shape in shapes.items()
        if name not in named
        for dim in shape
        if dim in dims
    ]


def fitted(wanted: PaddingTable, inputs: Sequence[TensorSpec]) -> tuple[PaddedInput, ...]:
    """The inputs to fill up, the mask included, with values of their own types; of a table without misfits."""
    datatypes = {spec.name: spec.datatype for spec in inputs}
    return tuple(
        dataclasses.replace(padded, value=_fill_of(padded.value, datatypes[padded.name]))
        for padded in _all_inputs(wanted)
    )


def _all_inputs(wanted: PaddingTable) -> tuple[PaddedInput, ...]:
    if wanted.mask is None or wanted.mask in [padded.name for padded in wanted.inputs]:
        return wanted.inputs
    return (*wanted.inputs, PaddedInput(wanted.mask, 1, 0))


def _fill_of(value: Any, datatype: DataType | None) -> Any:
    """The value as the input's numpy type holds it; raises ValueError where it can't."""
    if datatype is None or isinstance(value, str) is not (datatype is BYTES and value is not None):
        raise ValueError("of another kind")
    if datatype is BYTES:
        return value or ""
    number = value or 0
    if datatype is BF16:
        return round_to_bf16(np.array([float(number)]))[0]
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.array([number]).astype(datatype.dtype)[0]
    exact = bool(made == number) if datatype.kind != "float" else math.isfinite(made) == math.isfinite(number)
    if not exact:
        raise ValueError("another number")
    return made
