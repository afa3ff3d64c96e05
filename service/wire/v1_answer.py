"""Answers of TensorFlow Serving's REST API: `predictions` for rows, `outputs` for columns."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import orjson

from service.errors import InvalidRequest
from service.tensors import BF16, BYTES, Tensor
from service.wire.narrowing import widen_bf16
from service.wire.v1 import V1Request
from service.wire.v2_answer import contiguous

_LONG_LONG = "qQ"
"""ONNX Runtime's 64-bit integers are C's `long long`, whose numpy scalars orjson doesn't know; `long` is the same."""


def write_answer(request: V1Request, tensors: Sequence[Tensor]) -> bytes:
    """The body that answers a request, one tensor for each name in `request.outputs`.

    Raises:
        InvalidRequest: rows were asked for and an output has none.
    """
    if request.rows is None:
        columns = {tensor.spec.name: _column(tensor) for tensor in tensors}
        document = {"outputs": columns[tensors[0].spec.name] if len(tensors) == 1 else columns}
    else:
        document = {"predictions": _predictions(request.rows, tensors)}
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _predictions(rows: int, tensors: Sequence[Tensor]) -> Any:
    for tensor in tensors:
        if not tensor.array.ndim or len(tensor.array) != rows:
            raise InvalidRequest(
                f"output '{tensor.spec.name}' has shape {list(tensor.array.shape)} and no row for each of the "
                f'{rows} instances; ask in columns: {{"inputs": …}}'
            )
    columns = [_column(tensor) for tensor in tensors]
    if len(columns) == 1:
        return columns[0]
    names = [tensor.spec.name for tensor in tensors]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column(tensor: Tensor) -> Any:
    """A tensor nested as its shape, as orjson takes it; NaN and infinities become null."""
    array = tensor.array
    if tensor.labels is not None:
        return [dict(zip(tensor.labels, row, strict=True)) for row in array]
    if tensor.spec.datatype is BYTES:
        nested = array.tolist()
        return _encoded(nested) if tensor.spec.name.endswith("_bytes") else nested
    if tensor.spec.datatype is BF16:
        array = widen_bf16(array)
    elif array.dtype.char in _LONG_LONG:
        array = contiguous(array).view(f"{array.dtype.kind}8")
    return contiguous(array) if array.ndim else array[()]


def _encoded(nested: Any) -> Any:
    """Strings of an output named `…_bytes` as `{"b64": …}`, as TensorFlow Serving writes them."""
    if isinstance(nested, list):
        return [_encoded(item) for item in nested]
    return {"b64": base64.b64encode(str(nested).encode()).decode("ascii")}
