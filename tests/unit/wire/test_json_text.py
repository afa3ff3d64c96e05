import math

import pytest

from service.errors import MalformedBody
from service.wire.json_text import read_json


def nested(levels, inner=b"1"):
    return b"[" * levels + inner + b"]" * levels


@pytest.mark.parametrize("body", [b"", b"  ", b"{", b'{"a": }', b"[1,]", b"nul", b"\xff", b'"\\ud800"', b"{} {}"])
def test_broken_json_is_refused(body):
    with pytest.raises(MalformedBody):
        read_json(body)


@pytest.mark.parametrize("body", [b'[NaN, "\\ud800"]', b"[NaN, 1e999]", b"[NaN,]", b'{"a": NaN', b"[NaN] \xff"])
def test_the_lenient_reader_is_as_strict_otherwise(body):
    with pytest.raises(MalformedBody):
        read_json(body)


def test_nan_and_infinity_tokens():
    values = read_json(b"[NaN, Infinity, -Infinity, 18446744073709551616, 9007199254740993]")
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 18446744073709551616.0, 9007199254740993]


def test_a_byte_order_mark_is_tolerated():
    assert read_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_position_is_named():
    with pytest.raises(MalformedBody, match="character"):
        read_json(b'{"a": 1,, }')


def test_nesting_of_100_is_read_and_101_is_not():
    assert read_json(nested(100)) is not None
    for body in (
        nested(101),
        b'{"a":' * 101 + b"1" + b"}" * 101,
        nested(60, b'{"a":' * 60 + b"1" + b"}" * 60),
    ):
        with pytest.raises(MalformedBody, match="100"):
            read_json(body)


def test_brackets_in_strings_and_long_flat_lists_do_not_count():
    assert read_json(b'{"a": "' + b"[" * 500 + b'"}')["a"] == "[" * 500
    assert read_json(b'{"a\\"[[": ' + b"[" + b",".join([b"[]"] * 500) + b"]}") is not None


@pytest.mark.parametrize("levels", [5000, 200_000])
def test_absurd_nesting_neither_crashes_nor_recurses(levels):
    for body in (nested(levels), nested(levels, b"NaN")):
        with pytest.raises(MalformedBody):
            read_json(body)
