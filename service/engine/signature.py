"""What a model file declares of its inputs and outputs, and where its external data lies.

Field numbers are those of onnx.proto3 (ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorProto).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.engine.protobuf import WireFormatError, fields, messages, text
from service.errors import ModelLoadError
from service.tensors import Dim

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 5, 11, 12
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM = 1, 2, 1
_DIM_VALUE, _DIM_PARAM = 1, 2
_INITIALIZER_NAME, _INITIALIZER_EXTERNAL = 8, 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2

Shape = tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class Declared:
    """Declared shapes by tensor name (None: unknown rank), and the external files of the initializers."""

    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    external: frozenset[str]


def read_declared(path: Path) -> Declared:
    """Reads the declarations of a model file; weights are skipped, not read.

    Raises:
        ModelLoadError: the file is empty, cut off or no ONNX model.
    """
    try:
        return _declared(_mapped(path))
    except WireFormatError as fault:
        raise ModelLoadError(f"{path.name} is no ONNX model, or only a part of one: {fault}") from None
    except OSError as fault:
        raise ModelLoadError(f"{path.name} can't be read: {fault.strerror}") from None


def _mapped(path: Path) -> memoryview:
    """The file's bytes; the mapping ends with the last slice of it."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise WireFormatError("it is empty")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _declared(data: memoryview) -> Declared:
    graph = next(messages(data, _MODEL_GRAPH), None)
    if graph is None:
        raise WireFormatError("it has no graph")
    inputs: dict[str, Shape] = {}
    outputs: dict[str, Shape] = {}
    external: set[str] = set()
    for number, value in fields(graph):
        if isinstance(value, int):
            continue
        if number in (_GRAPH_INPUT, _GRAPH_OUTPUT):
            name = text(value, _VALUE_NAME) or ""
            (inputs if number == _GRAPH_INPUT else outputs)[name] = _shape(value)
        elif number == _GRAPH_INITIALIZER:
            external.update(_locations(value))
    return Declared(inputs, outputs, frozenset(external))


def _shape(value_info: memoryview) -> Shape:
    """Declared shape of a ValueInfoProto; None where there is no shape field."""
    for type_proto in messages(value_info, _VALUE_TYPE):
        for tensor in messages(type_proto, _TYPE_TENSOR):
            for shape in messages(tensor, _TENSOR_SHAPE):
                return tuple(_dim(dim) for dim in messages(shape, _SHAPE_DIM))
    return None


def _dim(dimension: memoryview) -> Dim:
    for number, value in fields(dimension):
        if number == _DIM_VALUE and isinstance(value, int):
            return value if 0 <= value < 1 << 63 else None
        if number == _DIM_PARAM and isinstance(value, memoryview):
            return bytes(value).decode("utf-8", "replace") or None
    return None


def _locations(initializer: memoryview) -> Iterator[str]:
    for entry in messages(initializer, _INITIALIZER_EXTERNAL):
        if text(entry, _ENTRY_KEY) == "location":
            yield text(entry, _ENTRY_VALUE) or ""
