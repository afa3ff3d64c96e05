"""The request that nearly everyone sends, read in a third of the time.

One input, flat FP32 data, all outputs, no parameters: whatever is plainly that is read here. On any doubt the answer
is None, and the thorough reader decides and words the error, so that no rule exists twice.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from service.tensors import FP32, Array, Dim, TensorSpec

_MEMBERS = 4
_FP32 = FP32.dtype
_MOST_SHAPES = 256
_LONGEST = 1024
"""Numbers up to which packing is faster than numpy's own conversion."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class PlainModel(NamedTuple):
    """What a model has to be for it: one required FP32 input of a known rank, and every output served.

    Attributes:
        name: of the input.
        declared: its shape.
        outputs: names of all outputs.
        counts: elements by shape, for shapes that have come and fit; by their text, in which 1, 1.0 and true differ.
    """

    name: str
    declared: tuple[Dim, ...]
    outputs: tuple[str, ...]
    counts: dict[str, int]


class PlainRequest(NamedTuple):
    """A request as `v2.V2Request`, with the members that a plain one leaves at their defaults."""

    id: str | None
    feeds: dict[str, Array]
    outputs: tuple[str, ...]
    wanted: None = None
    nan: str = "null"
    parameters: Mapping[str, Any] = _NOTHING


@lru_cache(maxsize=256)
def _floats(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}f")


def read_plain(document: Any, body: bytes, model: PlainModel) -> PlainRequest | None:
    """The request, if it is plainly one for this model; None leaves the judgement to the thorough reader.

    Args:
        document: the parsed body.
        body: its bytes.
        model: that is asked.
    """
    if document.__class__ is not dict or len(document) != 1:
        return None
    inputs = document.get("inputs")
    if inputs.__class__ is not list or len(inputs) != 1:
        return None
    item = inputs[0]
    if item.__class__ is not dict or len(item) != _MEMBERS or item.get("datatype") != "FP32":
        return None
    name = model.name
    data, shape = item.get("data"), item.get("shape")
    if item.get("name") != name or data.__class__ is not list or shape.__class__ is not list:
        return None
    count = model.counts.get(str(shape)) or _learn(shape, model)
    array = _array(data, shape, count, body)
    return None if array is None else PlainRequest(None, {name: array}, model.outputs)


def _learn(shape: list[Any], model: PlainModel) -> int:
    """Elements of a shape; 0 if it doesn't fit the model, or holds none."""
    declared = model.declared
    if len(declared) != len(shape):
        return 0
    count = 1
    for want, got in zip(declared, shape, strict=True):
        if got.__class__ is not int or got < 0 or (want.__class__ is int and want != got):
            return 0
        count *= got
    if count and len(model.counts) < _MOST_SHAPES:
        model.counts[str(shape)] = count
    return count


def _array(data: list[Any], shape: list[int], count: int, body: bytes) -> Array | None:
    if not 0 < count <= _LONGEST or count != len(data) or _may_hold_booleans(body):
        return None
    try:
        packed = _floats(count).pack(*data)
    except (struct.error, OverflowError):
        return None
    return np.ndarray(shape, _FP32, packed)


def _may_hold_booleans(body: bytes) -> bool:
    """Whether the data may hold `true`, which packing takes for 1.0, or `false`.

    Both have an e, and numbers seldom do: looking for that one byte behind the key is several times faster.
    """
    key = body.find(b'"data"')
    return body.find(b"e", key + len(b'"data"')) >= 0 and (body.find(b"true") >= 0 or body.find(b"false") >= 0)


def plain_model(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], *, images: bool) -> PlainModel | None:
    """The model as this reader needs it; None for one that it isn't made for."""
    required = [spec for spec in inputs if not spec.optional]
    served = all(spec.datatype is not None or spec.class_map for spec in outputs)
    if len(required) != 1 or required[0].datatype is not FP32 or required[0].shape is None or images or not served:
        return None
    return PlainModel(required[0].name, required[0].shape, tuple(spec.name for spec in outputs), {})
