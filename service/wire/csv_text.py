"""Comma-separated numbers, one row a line, as SageMaker's clients send them; no header line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from service.errors import InvalidRequest, InvalidValue, MalformedBody, ShapeMismatch
from service.tensors import BF16, Array, DataType, Tensor, TensorSpec, element_count
from service.wire.elements import convert, utf8
from service.wire.narrowing import widen_bf16
from service.wire.nesting import Place
from service.wire.signature import check_shape, shown_shape

_LARGEST_RANK = 2


_WORDS = {"nan": "NaN", "infinity": "Infinity", "+infinity": "Infinity", "-infinity": "-Infinity"}
_WORDS |= {"inf": "Infinity", "+inf": "Infinity", "-inf": "-Infinity"}


class _Row(NamedTuple):
    """The cells of one row, and the line that it ends on."""

    line: int
    cells: list[str]


def read_csv(body: bytes, spec: TensorSpec) -> Array:
    """The rows as an array of the input's rank, 1 or 2; empty lines are passed over.

    Raises:
        InvalidRequest: the input is no tensor of numbers of rank 1 or 2.
        MalformedBody: a cell that is no number, quotes that don't close, or no line at all.
        InvalidValue: a number that the input's datatype can't represent.
        ShapeMismatch: lines of different lengths, or other than the model takes.
    """
    datatype, shape = spec.datatype, spec.shape
    if datatype is None or datatype.kind not in ("float", "int") or (shape is not None and len(shape) not in (1, 2)):
        raise InvalidRequest(
            f"text/csv needs an input of numbers of rank 1 or 2; '{spec.name}' is {spec.onnx_type} "
            f"{shown_shape(shape or ())}: send JSON"
        )
    rows = _rows(utf8(body, "the CSV body", None))
    width = len(rows[0].cells)
    array = _array(rows, datatype, spec.name)
    result = array if shape is not None and len(shape) < _LARGEST_RANK and width == 1 else array.reshape(-1, width)
    check_shape(spec, result.shape, "")
    return result


def _rows(text: str) -> list[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [_Row(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as fault:
        raise MalformedBody(f"line {reader.line_num} of the CSV can't be read: {fault}") from None
    if not rows:
        raise MalformedBody("expected lines of numbers with commas, got an empty body")
    first = rows[0]
    for row in rows:
        if len(row.cells) != len(first.cells):
            raise ShapeMismatch(
                f"line {row.line} of the CSV has {len(row.cells)} values, line {first.line} has {len(first.cells)}",
                expected=len(first.cells),
                received=len(row.cells),
            )
    return rows


def _array(rows: list[_Row], datatype: DataType, name: str) -> Array:
    flat = [_number(cell, row.line, column) for row in rows for column, cell in enumerate(row.cells, 1)]
    try:
        return convert(flat, datatype, Place(name, ""))
    except InvalidValue:
        _refuse_first(flat, rows, datatype, name)
        raise


def _refuse_first(flat: list[float | str], rows: list[_Row], datatype: DataType, name: str) -> None:
    """Names the line and the column of the first number that doesn't fit."""
    width = len(rows[0].cells)
    for index, number in enumerate(flat):
        try:
            convert([number], datatype, Place(name, ""))
        except InvalidValue:
            row, column = rows[index // width], index % width
            raise InvalidValue(
                f"line {row.line}, value {column + 1} of the CSV: expected a number that {datatype.name} can "
                f"represent for input '{name}', got '{row.cells[column].strip()[:40]}'",
                expected=datatype.name,
            ) from None


def _number(cell: str, line: int, column: int) -> float | str:
    """The number of a cell, or JSON's word for one that isn't finite."""
    text = cell.strip()
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        number: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        number = None
    if number.__class__ is int or number.__class__ is float:
        return number
    return _loose(text, line, column)


def _loose(text: str, line: int, column: int) -> float:
    """A number as other programs spell it: `+1`, `.5`, `007`."""
    try:
        number = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        number = math.nan
    # Words for these were read before: here they are a number too large, or none.
    if not math.isfinite(number) or "_" in text:
        raise MalformedBody(f"line {line}, value {column} of the CSV: expected a finite number, got '{text[:40]}'")
    return number


def write_csv(tensors: Sequence[Tensor]) -> bytes:
    """One line a row, the outputs side by side, each flat; quotes as in RFC 4180.

    Raises:
        InvalidRequest: the outputs have different numbers of rows.
    """
    columns = [_cells(tensor) for tensor in tensors]
    if len({len(cells) for cells in columns}) != 1:
        raise InvalidRequest("the outputs have different numbers of rows and can't be CSV; accept application/json")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for parts in zip(*columns, strict=True):
        writer.writerow([cell for part in parts for cell in part])
    return out.getvalue().encode()


def _cells(tensor: Tensor) -> list[list[str]]:
    """The text of each element; numpy prints a number by the shortest decimals of its own type."""
    array = tensor.array
    if tensor.spec.datatype is BF16:
        array = widen_bf16(array)
    shape = (len(array), element_count(array.shape[1:])) if array.ndim else (1, 1)
    return [[str(cell) for cell in row] for row in array.reshape(shape)]
