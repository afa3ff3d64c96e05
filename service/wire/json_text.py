"""A JSON body as Python values: orjson, and Python's own parser where a body holds NaN or Infinity."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import orjson

from service.errors import MalformedBody

_DEEPEST = 100
# Possessive: a group that may give back keeps a frame for every character of a string.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_BOM = b"\xef\xbb\xbf"


def read_json(body: bytes | bytearray) -> Any:
    """The value of a body.

    Raises:
        MalformedBody: it is empty, no JSON in UTF-8, or nested more than 100 deep.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        value = _read_lenient(body, fault)
    check_depth(body)
    return value


def _read_lenient(body: bytes | bytearray, fault: orjson.JSONDecodeError) -> Any:
    """What orjson refuses and the protocol's clients write all the same: NaN, infinities, a byte-order mark."""
    if not body.strip():
        raise MalformedBody("expected a JSON body, got an empty one") from None
    if b"NaN" not in body and b"Infinity" not in body and not body.startswith(_BOM):
        _malformed(fault.msg, fault.pos)
    try:
        text = str(body.removeprefix(_BOM), "utf-8")
        value = json.loads(text, parse_float=_finite, parse_int=_integer)
        orjson.dumps(value)  # refuses what orjson would not have read: lone surrogates
    except json.JSONDecodeError as refused:
        _malformed(refused.msg, refused.pos)
    except (UnicodeError, RecursionError, ValueError, orjson.JSONEncodeError) as refused:
        raise MalformedBody(f"the body is no valid JSON in UTF-8: {refused}") from None
    return value


def _malformed(reason: str, position: int) -> NoReturn:
    raise MalformedBody(
        f"the body is no valid JSON in UTF-8: {reason} at character {position}",
        received=f"character {position}",
    ) from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is beyond the range of a double")
    return number


def _integer(text: str) -> int | float:
    """As orjson reads them: whole numbers of 64 bits exactly, longer ones as doubles."""
    number = int(text)
    return number if -(2**63) <= number < 2**64 else _finite(text)


def check_depth(body: bytes | bytearray) -> None:
    """Counts levels by taking away the innermost pairs of brackets, a level a pass, in C.

    Raises:
        MalformedBody: nested more than 100 deep.
    """
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return
    brackets = _STRING.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(_DEEPEST):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise MalformedBody(f"the body's JSON is nested deeper than {_DEEPEST} levels")
