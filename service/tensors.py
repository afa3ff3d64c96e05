"""Datatypes, tensor specifications and tensors: the words every other room speaks.

Datatypes are those of the Open Inference Protocol; each knows its numpy type and ONNX Runtime's name for it.
BF16 has no numpy type: its arrays are `uint16`, the upper half of the float32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Dim: TypeAlias = int | str | None
"""A fixed length, a named free dimension, or a free one without a name."""


@dataclass(frozen=True, slots=True, eq=False)
class DataType:
    """One datatype of the protocol.

    Attributes:
        name: the protocol's name, `FP32`.
        onnx: ONNX Runtime's element type, `float` in `tensor(float)`.
        dtype: the numpy type of arrays that carry it, little-endian.
        size_bytes: bytes an element; 0 for BYTES, whose elements vary.
        kind: `float`, `int`, `bool` or `bytes`.
    """

    name: str
    onnx: str
    dtype: np.dtype[Any]
    size_bytes: int
    kind: str


def _numeric(name: str, onnx: str, dtype: str, kind: str) -> DataType:
    return DataType(name, onnx, np.dtype(dtype), np.dtype(dtype).itemsize, kind)


BOOL = _numeric("BOOL", "bool", "?", "bool")
UINT8 = _numeric("UINT8", "uint8", "<u1", "int")
UINT16 = _numeric("UINT16", "uint16", "<u2", "int")
UINT32 = _numeric("UINT32", "uint32", "<u4", "int")
UINT64 = _numeric("UINT64", "uint64", "<u8", "int")
INT8 = _numeric("INT8", "int8", "<i1", "int")
INT16 = _numeric("INT16", "int16", "<i2", "int")
INT32 = _numeric("INT32", "int32", "<i4", "int")
INT64 = _numeric("INT64", "int64", "<i8", "int")
FP16 = _numeric("FP16", "float16", "<f2", "float")
BF16 = _numeric("BF16", "bfloat16", "<u2", "float")
FP32 = _numeric("FP32", "float", "<f4", "float")
FP64 = _numeric("FP64", "double", "<f8", "float")
BYTES = DataType("BYTES", "string", np.dtype(object), 0, "bytes")

DATATYPES: dict[str, DataType] = {
    datatype.name: datatype
    for datatype in (
        BOOL,
        UINT8,
        UINT16,
        UINT32,
        UINT64,
        INT8,
        INT16,
        INT32,
        INT64,
        FP16,
        BF16,
        FP32,
        FP64,
        BYTES,
    )
}
BY_ONNX_NAME: dict[str, DataType] = {datatype.onnx: datatype for datatype in DATATYPES.values()}


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """What a model declares of one input or output.

    Attributes:
        name: opaque UTF-8, as in the model.
        datatype: None where the protocol has no type for it (see `onnx_type`).
        shape: None for an unknown rank; `()` for a scalar. Declared output shapes may be wrong in real models.
        onnx_type: the type as ONNX Runtime writes it, `tensor(float)`, `seq(map(int64,tensor(float)))`.
        optional: an input with a default in the model (an overridable initializer).
        class_map: an output that arrives as a sequence of maps and is served as a dense FP32 tensor.
    """

    name: str
    datatype: DataType | None
    shape: tuple[Dim, ...] | None
    onnx_type: str
    optional: bool = False
    class_map: bool = False


class Tensor(NamedTuple):
    """One tensor of an answer: what the run returned, with the names of its classes where there are any."""

    spec: TensorSpec
    array: Array
    labels: tuple[str, ...] | None = None


def element_count(shape: tuple[int, ...]) -> int:
    """Number of elements of a concrete shape, exact at any size."""
    count = 1
    for length in shape:
        count *= length
    return count
