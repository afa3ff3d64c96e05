"""Answers of the Open Inference Protocol: one JSON document, and bytes behind it where they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from service.tensors import BF16, BYTES, Array, Tensor
from service.wire import binary, classification
from service.wire.narrowing import widen_bf16
from service.wire.nonfinite import has_nonfinite, spelled
from service.wire.signature import Signature
from service.wire.v2 import OutputRequest, V2Request
from service.wire.v2_plain import PlainRequest

_SMALL_BYTES = 16_384


def write_answer(
    name: str, version: str, request: V2Request | PlainRequest, tensors: Sequence[Tensor], signature: Signature
) -> tuple[bytes, list[bytes | memoryview] | None]:
    """The JSON that answers a request, and the tensors behind it; None where all are in the JSON.

    Args:
        name: the model's.
        version: the version that answered.
        request: what was asked.
        tensors: one for each name in `request.outputs`, in that order.
        signature: the model's, for the labels of the configuration.

    Raises:
        InvalidRequest: an output can't be written as the request asks.
    """
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if request.id is not None:
        document["id"] = request.id
    if request.wanted is None:
        document["outputs"] = [_as_json(tensor, request.nan) for tensor in tensors]
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), None
    blobs: list[bytes | memoryview] = []
    document["outputs"] = [
        _output(tensor, wanted, request.nan, signature, blobs)
        for tensor, wanted in zip(tensors, request.wanted, strict=True)
    ]
    text = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    if not any(wanted.binary for wanted in request.wanted):
        return text, None
    return text, blobs


def _output(
    tensor: Tensor, wanted: OutputRequest, nan: str, signature: Signature, blobs: list[bytes | memoryview]
) -> dict[str, Any]:
    labels = signature.labels.get(tensor.spec.name, ())
    if wanted.classes:
        array = classification.best(tensor, wanted.classes, labels)
        entry: dict[str, Any] = {"name": tensor.spec.name, "datatype": "BYTES", "shape": array.shape}
        if not wanted.binary:
            return {**entry, "data": array.ravel().tolist()}
        blob: bytes | memoryview = binary.write_bytes(array)
    elif not wanted.binary:
        return _as_json(tensor, nan)
    else:
        entry = _entry(tensor)
        text = tensor.spec.datatype is BYTES
        blob = binary.write_bytes(tensor.array) if text else _bytes_of(tensor.array)
    blobs.append(blob)
    entry["parameters"] = {**entry.get("parameters", {}), "binary_data_size": len(blob)}
    return entry


def _bytes_of(array: Array) -> bytes | memoryview:
    """The bytes of an array where they lie, or a copy of a small or scattered one."""
    if array.nbytes < _SMALL_BYTES or not array.flags.c_contiguous:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data


def _entry(tensor: Tensor) -> dict[str, Any]:
    spec = tensor.spec
    entry: dict[str, Any] = {
        "name": spec.name,
        "datatype": "FP32" if spec.datatype is None else spec.datatype.name,
        "shape": tensor.array.shape,
    }
    if tensor.labels is not None:
        # Parameters of the protocol are scalars, a list of names is ours: the names joined would be ambiguous.
        entry["parameters"] = {"labels": list(tensor.labels)}
    return entry


def _as_json(tensor: Tensor, nan: str) -> dict[str, Any]:
    entry = _entry(tensor)
    entry["data"] = json_data(tensor, nan)
    return entry


def json_data(tensor: Tensor, nan: str) -> Any:
    """The elements, flat and row-major, as orjson takes them; what isn't finite as `nan` says."""
    array = tensor.array
    if tensor.spec.datatype is BYTES:
        return array.ravel().tolist()
    if tensor.spec.datatype is BF16:
        array = widen_bf16(array)
    if nan != "null" and has_nonfinite(array):
        words = orjson.dumps(spelled(array, nan, tensor.spec.name), option=orjson.OPT_SERIALIZE_NUMPY)
        return orjson.Fragment(bare(words) if nan == "token" else words)
    return np.ascontiguousarray(array).ravel()


def bare(words: bytes) -> bytes:
    """The JSON of a float tensor with its words written as tokens; it holds no other strings."""
    return words.replace(b'"', b"")


def contiguous(array: Array) -> Array:
    """The array in row-major order, its rank kept (numpy's own function makes rank 0 to rank 1)."""
    return array if array.flags.c_contiguous else array.copy(order="C")
