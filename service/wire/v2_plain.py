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

from service.tensors import FP32, Array, TensorSpec

_MEMBERS = 4
_LONGEST = 1024
"""Numbers up to which packing is faster than numpy's own conversion."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class PlainModel(NamedTuple):
    """What a model has to be for it: one required FP32 input of a known rank, and every output served."""

    spec: TensorSpec
    outputs: tuple[str, ...]


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
    spec = model.spec
    data, shape = item.get("data"), item.get("shape")
    if item.get("name") != spec.name or data.__class__ is not list or shape.__class__ is not list:
        return None
    array = _array(data, shape, spec, body)
    return None if array is None else PlainRequest(None, {spec.name: array}, model.outputs)


def _array(data: list[Any], shape: list[Any], spec: TensorSpec, body: bytes) -> Array | None:
    declared = spec.shape
    if declared is None or len(declared) != len(shape) or not 0 < len(data) <= _LONGEST:
        return None
    count = 1
    for want, got in zip(declared, shape, strict=True):
        if got.__class__ is not int or got < 0 or (want.__class__ is int and want != got):
            return None
        count *= got
    # Packing takes true for 1.0; a body without the words has no booleans.
    if count != len(data) or b"true" in body or b"false" in body:
        return None
    try:
        packed = _floats(count).pack(*data)
    except (struct.error, OverflowError):
        return None
    array: Array = np.frombuffer(packed, FP32.dtype)
    return array.reshape(shape)


def plain_model(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], *, images: bool) -> PlainModel | None:
    """The model as this reader needs it; None for one that it isn't made for."""
    required = [spec for spec in inputs if not spec.optional]
    served = all(spec.datatype is not None or spec.class_map for spec in outputs)
    if len(required) != 1 or required[0].datatype is not FP32 or required[0].shape is None or images or not served:
        return None
    return PlainModel(required[0], tuple(spec.name for spec in outputs))
