"""Walks the wire format of protocol buffers without a schema or a copy.

ONNX Runtime reports a scalar and a tensor of unknown rank alike, so the declared shapes are read from the model
file itself. The `onnx` package would do it too, at the price of reading gigabytes of weights into memory; this
reader skips them. Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_LONGEST_SHIFT = 63
_MORE = 0x80

Field: TypeAlias = "int | memoryview"


class WireFormatError(ValueError):
    """The bytes are no protocol buffer."""


def varint(data: memoryview, offset: int) -> tuple[int, int]:
    """The number at `offset`, and where the next one starts."""
    number = shift = 0
    while True:
        if offset >= len(data) or shift > _LONGEST_SHIFT:
            raise WireFormatError("a number is cut off")
        byte = data[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return number, offset
        shift += 7


def fields(data: memoryview) -> Iterator[tuple[int, Field]]:
    """Every field of a message as its number and its value, a varint or the bytes of the rest."""
    offset = 0
    while offset < len(data):
        key, offset = varint(data, offset)
        kind = key & 7
        if kind == VARINT:
            number, offset = varint(data, offset)
            yield key >> 3, number
            continue
        if kind == LENGTH:
            size, offset = varint(data, offset)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise WireFormatError(f"field {key >> 3} has the unknown wire type {kind}")
        if offset + size > len(data):
            raise WireFormatError(f"field {key >> 3} is cut off")
        yield key >> 3, data[offset : offset + size]
        offset += size


def messages(data: memoryview, number: int) -> Iterator[memoryview]:
    """The values of one repeated field that are messages, strings or bytes."""
    for field, value in fields(data):
        if field == number and isinstance(value, memoryview):
            yield value


def text(data: memoryview, number: int) -> str | None:
    """The last value of a string field."""
    found = None
    for value in messages(data, number):
        found = bytes(value).decode("utf-8", "replace")
    return found
