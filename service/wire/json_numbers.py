"""Long lists of numbers in a JSON body, read by simdjson straight into arrays.

The lists are cut out of the body, orjson reads what is left with a stand-in in the place of each, and the thorough
readers meet a `Numbers` where a list would be. simdjson flattens nesting without a word, so the brackets and commas
of nested data are compared with those of its shape. On any doubt this is `Unsure`, and the thorough reader reads the
whole body and words the error: no rule exists twice.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, Final

import numpy as np
import orjson

from service.tensors import BF16, FP16, Array, DataType, element_count
from service.wire.narrowing import LARGEST, round_to_bf16

simdjson: Any
try:
    import simdjson
except ImportError:  # CPython 3.14 has no wheel yet
    simdjson = None

FROM_BYTES: Final = 4096
"""Bytes from which a body is read this way: about 400 numbers, where it takes as long as the other ways."""

_LONG_BYTES: Final = 1024
_MOST_STRINGS: Final = 512
_DEEPEST: Final = 16
_KEPT_BYTES: Final = 32 << 20
_STRUCTURE_ONLY: Final = bytes(code for code in range(256) if code not in b"[],")
_SHAPE: Final = b'"shape"'
_SPACE: Final = b" \t\n\r"
_STAND_IN: Final = secrets.token_hex(16)

_parsers: list[Any] = []
"""Idle parsers; one is taken out for each reading, so that threads never share it. Its memory is what makes it fast."""

_log = logging.getLogger(__name__)


class Unsure(Exception):
    """The body isn't plainly good; never leaves the wire."""


class Numbers:
    """A list that stands in the body under a key, from `[` to `]` and without any string in it.

    Attributes:
        taken: whether it was read; a list that nobody reads has not been checked at all.
    """

    __slots__ = ("_begin", "_body", "_end", "_structure", "taken")

    def __init__(self, body: bytes | bytearray, begin: int, end: int) -> None:
        self._body = body
        self._begin = begin
        self._end = end
        self._structure: bytes | None = None
        self.taken = False

    @property
    def _text(self) -> memoryview:
        return memoryview(self._body)[self._begin : self._end]

    def read(self, shape: tuple[int, ...], datatype: DataType) -> Array:
        """The elements, flat or nested as the shape says, as an array of that shape.

        Raises:
            Unsure: the list doesn't plainly fit.
        """
        count = element_count(shape)
        # A shape from the request may be of any size; no list holds more numbers than bytes.
        if not 0 < count < self._end - self._begin or not (self._is_flat() or self._brackets() == _structure(shape)):
            raise Unsure
        array = self._convert(datatype)
        if array.size != count:
            raise Unsure
        return array.reshape(shape)

    def shape(self) -> tuple[int, ...]:
        """The shape that the nesting has.

        Raises:
            Unsure: the lists are ragged, empty, or mixed with values.
        """
        if self._is_flat():
            return (self._body.count(b",", self._begin, self._end) + 1,)
        shape = _infer(self._brackets())
        if _structure(shape) != self._structure:
            raise Unsure
        return shape

    def _is_flat(self) -> bool:
        return self._body.find(b"[", self._begin + 1, self._end) < 0

    def _brackets(self) -> bytes:
        if self._structure is None:
            self._structure = bytes(self._text).translate(None, _STRUCTURE_ONLY)
        return self._structure

    def _convert(self, datatype: DataType) -> Array:
        self.taken = True
        if datatype.kind == "float":
            return _floats(_parse(self._text, "d", np.dtype(np.float64)), datatype)
        if datatype.kind != "int":
            raise Unsure
        wide = datatype.dtype == np.uint64
        array = _parse(self._text, "u" if wide else "i", np.dtype(np.uint64 if wide else np.int64))
        limits = np.iinfo(datatype.dtype)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise Unsure
        return array.astype(datatype.dtype, copy=False)


def cut(body: bytes | bytearray, from_bytes: int = FROM_BYTES) -> tuple[Any, list[Numbers]] | None:
    """The body's document with `Numbers` in the place of long lists, and all of these; None where there are none.

    Raises:
        Unsure: the rest of the body is no plain JSON.
    """
    if len(body) < from_bytes or simdjson is None or b"\\" in body:
        return None
    pieces: list[bytes | bytearray] = []
    lists: list[Numbers] = []
    start = 0
    for begin, end in _long_lists(body, min(from_bytes, _LONG_BYTES)):
        pieces += (body[start:begin], b'"%s%d"' % (_STAND_IN.encode(), len(lists)))
        lists.append(Numbers(body, begin, end))
        start = end
    if not lists:
        return None
    try:
        document = orjson.loads(b"".join((*pieces, body[start:])))
    except orjson.JSONDecodeError:
        raise Unsure from None
    return _put_back(document, lists, 0), lists


def announce_absence() -> None:
    """Says once in the log that large bodies take the slower way here, if they do."""
    if simdjson is None:
        _log.info("pysimdjson isn't installed: large JSON bodies take about three times as long to read")


def _long_lists(body: bytes | bytearray, long_bytes: int) -> list[tuple[int, int]]:
    """Where lists after a key stand that are long and hold no string; without escapes, quotes pair up."""
    found: list[tuple[int, int]] = []
    quote = body.find(b'"')
    for _ in range(_MOST_STRINGS):
        if quote < 0:
            return found
        following = body.find(b'"', quote + 1)
        limit = following if following >= 0 else len(body)
        if limit - quote > long_bytes and not body.endswith(_SHAPE, 0, quote + 1):
            found += _list_between(body, quote + 1, limit)
        quote = following
    return []


def _list_between(body: bytes | bytearray, start: int, limit: int) -> list[tuple[int, int]]:
    head = body[start : start + 64].lstrip(_SPACE)
    if not head.startswith(b":"):
        return []
    begin = body.find(b"[", start, start + 64)
    if begin < 0 or body[start:begin].strip(_SPACE) != b":":
        return []
    brace = body.find(b"}", begin, limit)
    end = body.rfind(b"]", begin, brace if brace >= 0 else limit) + 1
    return [(begin, end)] if end else []


def _put_back(value: Any, lists: list[Numbers], depth: int) -> Any:
    if value.__class__ is str:
        return lists[int(value[len(_STAND_IN) :])] if value.startswith(_STAND_IN) else value
    if depth > _DEEPEST:
        raise Unsure
    if value.__class__ is list:
        return [_put_back(item, lists, depth + 1) for item in value]
    if value.__class__ is dict:
        return {key: _put_back(item, lists, depth + 1) for key, item in value.items()}
    return value


def _parse(text: bytes | memoryview, kind: str, dtype: np.dtype[Any]) -> Array:
    try:
        parser = _parsers.pop()
    except IndexError:
        parser = simdjson.Parser()
    try:
        numbers = parser.parse(text)
        array: Array = np.frombuffer(numbers.as_buffer(of_type=kind), dtype)
    except (ValueError, TypeError, RuntimeError, AttributeError):
        raise Unsure from None
    del numbers
    if len(text) <= _KEPT_BYTES:
        _parsers.append(parser)
    return array


def _floats(array: Array, datatype: DataType) -> Array:
    limit = LARGEST[datatype.name]
    if array.size and not (array.max() <= limit and array.min() >= -limit):
        raise Unsure
    if datatype is BF16:
        return round_to_bf16(array)
    if datatype is FP16:
        return array.astype(np.float16)
    return array.astype(datatype.dtype, copy=False)


def _structure(shape: tuple[int, ...]) -> bytes:
    """Brackets and commas of lists nested as a shape without zeros says."""
    if not shape or len(shape) > _DEEPEST or 0 in shape:
        raise Unsure
    text = b"[" + b"," * (shape[-1] - 1) + b"]"
    for length in reversed(shape[:-1]):
        text = b"[" + (text + b",") * (length - 1) + text + b"]"
    return text


def _infer(structure: bytes) -> tuple[int, ...]:
    """The one shape that may have this structure."""
    rank = len(structure) - len(structure.lstrip(b"["))
    if rank > _DEEPEST:
        raise Unsure
    shape: list[int] = []
    unit = 0
    for level in range(1, rank + 1):
        closed = structure.find(b"]" * level)
        size = closed + level - (rank - level)
        if closed < 0 or size < 2:  # noqa: PLR2004 - a pair of brackets
            raise Unsure
        shape.insert(0, (size - 1) // (unit + 1))
        unit = size
    return tuple(shape)
