"""The reader of plain requests takes only what the thorough one takes, and reads it alike."""

import math

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidRequest
from service.tensors import FP32, INT64, TensorSpec
from service.wire import v2
from service.wire.signature import Signature
from service.wire.v2_plain import PlainRequest, read_plain

SPEC = TensorSpec("x", FP32, ("n", 2), "tensor(float)")
MODEL = Signature([SPEC], [TensorSpec("y", FP32, ("n",), "tensor(float)")])


def document(data, shape=(1, 2), **more):
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(shape), "data": data, **more}]}


def both(value):
    body = orjson.dumps(value)
    plain = read_plain(orjson.loads(body), body, MODEL.plain)
    try:
        thorough = v2._read_document(orjson.loads(body), MODEL, None)
    except InvalidRequest:
        thorough = None
    return plain, thorough


ELEMENTS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**64 - 1),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.lists(st.integers(0, 3), max_size=2),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(ELEMENTS, max_size=6), st.lists(st.integers(-1, 4), max_size=3))
def test_what_it_reads_the_thorough_reader_reads_alike(data, shape):
    plain, thorough = both(document(data, shape))
    if plain is not None:
        assert thorough is not None
        assert plain.feeds["x"].tobytes() == thorough.feeds["x"].tobytes()
        assert plain.feeds["x"].shape == thorough.feeds["x"].shape
        assert tuple(plain) == (
            thorough.id, plain.feeds, thorough.outputs, thorough.wanted, thorough.nan, thorough.parameters,
        )  # fmt: skip


@pytest.mark.parametrize("value", [3.4028235677973366e38, 1e39, -1e300, 2**200])
def test_beyond_float32_is_left_to_the_thorough_reader(value):
    body = b'{"inputs": []}'
    given_document = document([0.0, value])
    assert read_plain(given_document, body, MODEL.plain) is None


def test_the_largest_float32_and_what_rounds_to_it():
    for value in (3.4028234663852886e38, 3.4028235677973362e38, -3.4028234663852886e38, 1e-45, -0.0):
        plain, thorough = both(document([value, 1]))
        assert plain.feeds["x"].tobytes() == thorough.feeds["x"].tobytes()


def test_tokens_for_nan_and_infinity():
    given_document = document([math.nan, math.inf])
    plain = read_plain(given_document, b"[NaN, Infinity]", MODEL.plain)
    assert np.isnan(plain.feeds["x"][0, 0])
    assert plain.feeds["x"][0, 1] == np.inf


@pytest.mark.parametrize(
    "value",
    [
        {**document([1, 2]), "id": "7"},
        {**document([1, 2]), "parameters": {}},
        document([1, 2], parameters={}),
        document([[1, 2]]),
        document([1, 2], (2,)),
        document([1, 2, 3]),
        document([1, True]),
        document("12"),
        document([]),
        {"inputs": document([1, 2])["inputs"] * 2},
        [],
    ],
)
def test_everything_else_is_left_to_the_thorough_reader(value):
    body = orjson.dumps(value)
    assert read_plain(orjson.loads(body), body, MODEL.plain) is None


def test_models_it_is_not_made_for():
    other = TensorSpec("x", INT64, ("n",), "tensor(int64)")
    odd = TensorSpec("y", None, None, "tensor(float8e4m3fn)")
    for inputs, outputs in (([other], []), ([SPEC, SPEC], []), ([], []), ([SPEC], [odd])):
        assert Signature(inputs, outputs).plain is None


def test_the_way_in_uses_it():
    request = v2.read_request(orjson.dumps(document([1, 2])), None, MODEL)
    assert isinstance(request, PlainRequest)
    assert request.feeds["x"].tolist() == [[1, 2]]
