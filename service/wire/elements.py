"""JSON values as the elements of one tensor, exactly or not at all.

numpy would turn 300 into 44 for UINT8, "1.5" into 1.5, true into 1.0 and 1e39 into an infinity; each of these is
an error here that names the element. Rules: README, "What a tensor takes".
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from service.errors import DatatypeMismatch, InvalidValue, ShapeMismatch
from service.tensors import BF16, BYTES, FP16, Array, DataType, element_count
from service.wire.json_numbers import Numbers
from service.wire.narrowing import LARGEST, round_to_bf16
from service.wire.nesting import Place, flatten

_FLOAT_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = 2**53 - 1
"""Whole floats up to here stand for one integer only; beyond, the parser may have rounded the text."""
_NUMBERS = frozenset({int, float})
_WHOLE = frozenset({int})
_BOOLS = frozenset({bool})
_TEXTS = frozenset({str})


def read_elements(data: Any, shape: tuple[int, ...], datatype: DataType, place: Place) -> Array:
    """The array of a tensor's `data`, flat or nested as its shape says.

    Raises:
        ShapeMismatch: the number of elements or the nesting doesn't fit.
        InvalidValue: an element can't be represented in the datatype.
        Unsure: the data was cut out of the body, and is not plainly right.
    """
    if data.__class__ is not list:
        if data.__class__ is Numbers:
            array: Array = data.read(shape, datatype)
            return array
        if shape:
            raise ShapeMismatch(
                f"input '{place.tensor}': expected a list of {element_count(shape)} elements, got {shown(data)}",
                pointer=place.pointer,
            )
        data = [data]
    if len(data) == element_count(shape) and list not in (kinds := set(map(type, data))):
        flat = data
    else:
        flat = flatten(data, shape, place)
        kinds = set(map(type, flat))
    return _convert(flat, kinds, datatype, place).reshape(shape)


def convert(flat: list[Any], datatype: DataType, place: Place) -> Array:
    """A flat list as an array of shape `(len(flat),)`.

    Raises:
        InvalidValue: an element can't be represented in the datatype.
    """
    return _convert(flat, set(map(type, flat)), datatype, place)


def _convert(flat: list[Any], kinds: set[type], datatype: DataType, place: Place) -> Array:
    if datatype.kind == "float":
        if not kinds <= _NUMBERS:
            flat = [_float(value, index, datatype, place) for index, value in enumerate(flat)]
        return _floats(flat, datatype, place)
    if datatype.kind == "int":
        if not kinds <= _WHOLE:
            flat = [_whole(value, index, datatype, place) for index, value in enumerate(flat)]
        return _integers(flat, datatype, place)
    if datatype.kind == "bool":
        if not kinds <= _BOOLS:
            flat = [_bool(value, index, place) for index, value in enumerate(flat)]
        return np.array(flat, np.bool_)
    if not kinds <= _TEXTS:
        flat = [_text(value, index, place) for index, value in enumerate(flat)]
    return texts(flat)


def texts(flat: Sequence[str]) -> Array:
    """An object array of Python strings."""
    array = np.empty(len(flat), BYTES.dtype)
    array[:] = flat
    return array


def _floats(flat: list[Any], datatype: DataType, place: Place) -> Array:
    limit = LARGEST[datatype.name]
    # Written so that a NaN, which compares false, leads to the thorough check as well.
    if flat and not (max(flat) <= limit and min(flat) >= -limit):
        for index, value in enumerate(flat):
            if abs(value) > limit and value not in (math.inf, -math.inf):
                _refuse(value, index, datatype, place, "a number in the range of the datatype")
    if datatype is BF16:
        return round_to_bf16(np.array(flat, np.float64))
    if datatype is FP16:
        return np.array(flat, np.float64).astype(np.float16)
    return np.array(flat, datatype.dtype)


def _integers(flat: list[int], datatype: DataType, place: Place) -> Array:
    limits = np.iinfo(datatype.dtype)
    if flat and (min(flat) < limits.min or max(flat) > limits.max):
        for index, value in enumerate(flat):
            if not limits.min <= value <= limits.max:
                _refuse(value, index, datatype, place, f"a whole number from {limits.min} to {limits.max}")
    return np.array(flat, datatype.dtype)


def _float(value: Any, index: int, datatype: DataType, place: Place) -> float:
    if value.__class__ is float or value.__class__ is int:
        number: float = value
        return number
    if value is None:
        return math.nan
    if value.__class__ is str and value in _FLOAT_WORDS:
        return _FLOAT_WORDS[value]
    return _refuse(value, index, datatype, place, "a number")


def _whole(value: Any, index: int, datatype: DataType, place: Place) -> int:
    if value.__class__ is int:
        number: int = value
        return number
    if value.__class__ is float and value.is_integer():
        if abs(value) <= _EXACT:
            return int(value)
        _refuse(value, index, datatype, place, "a number within 2^53, or one written without point or exponent,")
    return _refuse(value, index, datatype, place, "a whole number")


def _bool(value: Any, index: int, place: Place) -> bool:
    if value.__class__ is bool or (value.__class__ is int and value in (0, 1)):
        return bool(value)
    raise InvalidValue(
        f"input '{place.tensor}', element {index}: expected true or false for BOOL, got {shown(value)}",
        pointer=place.pointer,
    )


def _text(value: Any, index: int, place: Place) -> str:
    if value.__class__ is str:
        text: str = value
        return text
    if value.__class__ is dict and set(value) == {"b64"}:
        raw = read_base64(value["b64"], f"input '{place.tensor}', element {index}", place.pointer)
        return utf8(raw, f"input '{place.tensor}', element {index}", place.pointer)
    raise InvalidValue(
        f"input '{place.tensor}', element {index}: expected a string or {{\"b64\": …}} for BYTES, got {shown(value)}",
        pointer=place.pointer,
    )


def read_base64(text: Any, where: str, pointer: str) -> bytes:
    """The bytes of a `b64` member.

    Raises:
        InvalidValue: it is no text, or no base64 (RFC 4648 section 4, padding needed).
    """
    try:
        if len(text) % 4:
            raise ValueError("its length is no multiple of 4")  # noqa: TRY301 - told like the library's own faults
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as fault:
        raise InvalidValue(f"{where}: 'b64' is no valid base64: {fault}", pointer=pointer) from None


def utf8(raw: bytes, where: str, pointer: str | None) -> str:
    """The text of a BYTES element.

    Raises:
        InvalidValue: the bytes are not UTF-8, which ONNX Runtime's strings can't carry.
    """
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as fault:
        raise InvalidValue(
            f"{where}: byte {fault.start} is not valid UTF-8; string tensors carry UTF-8 text only",
            pointer=pointer,
        ) from None


def shown(value: Any) -> str:
    """A value as an error shows it: short, in JSON's words."""
    if value is None:
        return "null"
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is list:
        return "a list"
    if value.__class__ is dict:
        return "an object"
    text = f"'{value}'" if value.__class__ is str else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - as long as an error may be


def _refuse(value: Any, index: int, datatype: DataType, place: Place, expected: str) -> NoReturn:
    raise InvalidValue(
        f"input '{place.tensor}', element {index}: expected {expected} for {datatype.name}, got {shown(value)}",
        pointer=place.pointer,
        expected=datatype.name,
    )


def check_datatype(name: str, declared: Any, datatype: DataType, pointer: str) -> None:
    """Refuses a `datatype` that isn't the model's.

    Raises:
        DatatypeMismatch: naming both.
    """
    if declared != datatype.name:
        raise DatatypeMismatch(
            f"input '{name}': expected datatype {datatype.name}, got {shown(declared)}",
            pointer=pointer,
            expected=datatype.name,
            received=declared if isinstance(declared, str) else None,
        )
