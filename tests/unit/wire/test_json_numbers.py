"""Lists read by simdjson equal those of the thorough reader, bit for bit, and every error is the thorough one's."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ServiceError
from service.tensors import BOOL, DATATYPES, FP32, TensorSpec
from service.wire import json_numbers, v1, v2
from service.wire.signature import Signature

NEVER = 1 << 40
NUMERIC = [kind for kind in DATATYPES.values() if kind.kind in ("float", "int")]


def model(datatype, rank, from_bytes, inputs=("x",)):
    specs = [TensorSpec(name, datatype, (None,) * rank, f"tensor({datatype.onnx})") for name in inputs]
    return Signature(specs, [TensorSpec("y", FP32, (None,), "tensor(float)")], fast_json_bytes=from_bytes)


def outcome(read, *arguments):
    try:
        request = read(*arguments)
    except ServiceError as fault:
        return type(fault), str(fault), fault.pointer
    feeds = {name: (array.dtype, array.shape, array.tobytes()) for name, array in request.feeds.items()}
    return feeds, [value for name, value in request._asdict().items() if name != "feeds"]


def readers(datatype, rank, **more):
    """Four readers of bodies: v2 and v1, each with simdjson and without."""
    fast, slow = model(datatype, rank, 0, **more), model(datatype, rank, NEVER, **more)
    return [
        (
            lambda body: outcome(v2.read_request, body, None, fast),
            lambda body: outcome(v2.read_request, body, None, slow),
        ),
        (lambda body: outcome(v1.read_request, body, fast), lambda body: outcome(v1.read_request, body, slow)),
    ]


def v2_body(data, shape, datatype="FP32", name="x"):
    return f'{{"inputs": [{{"name": "{name}", "shape": {shape}, "datatype": "{datatype}", "data": {data}}}]}}'.encode()


@pytest.fixture
def counted(monkeypatch):
    """How many lists simdjson has read."""
    calls = []
    parse = json_numbers._parse
    monkeypatch.setattr(json_numbers, "_parse", lambda *given: calls.append(given) or parse(*given))
    return calls


@pytest.mark.parametrize("datatype", NUMERIC, ids=lambda datatype: datatype.name)
@pytest.mark.parametrize("nested", [False, True])
def test_plain_lists_go_through_simdjson_and_come_out_alike(datatype, nested, counted):
    limits = np.iinfo(datatype.dtype) if datatype.kind == "int" else None
    numbers = [limits.min, limits.max, 0, 7, 11, 100] if limits else [1.5, -0.0, 65504, 1e-7, 3, 0.1]
    array = np.array(numbers, object).reshape(1, 2, 3)
    (fast_v2, slow_v2), (fast_v1, slow_v1) = readers(datatype, 3)
    for shape in ([1, 2, 3], [2, 3, 1], [6, 1, 1]):
        data = array.reshape(shape).tolist()
        body = v2_body(json.dumps(data if nested else numbers), shape, datatype.name)
        assert fast_v2(body) == slow_v2(body)
        assert isinstance(fast_v2(body)[0], dict)
        for rows in (
            json.dumps({"instances": data}),
            json.dumps({"inputs": data}),
            json.dumps({"inputs": {"x": data}}),
        ):
            assert fast_v1(rows.encode()) == slow_v1(rows.encode())
            assert isinstance(fast_v1(rows.encode())[0], dict)
    assert len(counted) == 3 * 2 + 3 * 3 * 2


SPELLINGS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-5, 300).map(str),
    st.sampled_from(
        ["-0", "-0.0", "1e400", "1e-400", "01", "1.", ".5", "+1", "1E5", "3.4028235677973366e38",
         "3.402823567797337e38",
         "9007199254740993", "9007199254740993.0", "18446744073709551616", "true", "null", "NaN", "-Infinity",
         "1 2", "",
         '"1"', '"NaN"', "{}", "[]", "1,", "2.0", "65520", "65519.99"]
    ),
)  # fmt: skip
SPACES = st.sampled_from(["", "", "", " ", "\n", "\t ", "\x0b"])


@st.composite
def texts(draw):
    """A list as text: usually regular, with numbers in many spellings, and spoiled in one place or none."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    plain = st.integers(-4, 90).map(str)

    def build(level):
        if level == len(shape):
            return draw(plain if draw(st.integers(0, 3)) else SPELLINGS)
        return "[" + draw(SPACES) + ("," + draw(SPACES)).join(build(level + 1) for _ in range(shape[level])) + "]"

    text = build(0)
    if draw(st.booleans()):
        spot = draw(st.integers(0, len(text)))
        text = text[:spot] + draw(st.sampled_from(["]", "[", ",", "1", '"', "}", "{", "],["])) + text[spot:]
    return text, draw(st.sampled_from([shape, [int(np.prod(shape))], [*shape, 1], [1, *shape], [2, 2]]))


@settings(max_examples=1500, deadline=None)
@given(texts(), st.sampled_from([*NUMERIC, BOOL]))
def test_whatever_comes_both_ways_say_the_same(drawn, datatype):
    text, shape = drawn
    (fast_v2, slow_v2), (fast_v1, slow_v1) = readers(datatype, len(shape))
    body = v2_body(text, shape, datatype.name)
    assert fast_v2(body) == slow_v2(body)
    for rows in (f'{{"instances": {text}}}', f'{{"inputs": {text}}}', f'{{"inputs": {{"x": {text}}}, "more": 1}}'):
        assert fast_v1(rows.encode()) == slow_v1(rows.encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2], "data": [3, 4]}]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "more": [1,, 2]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "id": [1, 2]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "parameters": {"a": [1, 2]}}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "outputs": [1, 2]}',
        b'{"inputs": [{"name": [1, 2], "shape": [2], "datatype": "FP32", "data": [1, 2]}]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": [1, 2], "data": [1, 2]}]}',
        b'{"inputs": [1, 2, 3, 4, 5, 6]}',
        b'{"inputs": [{"name": ":[1,2]", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2] ] }]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}, [3, 4]]}',
        b'\xef\xbb\xbf{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}',
        b'{"inputs": [{"name": "\\u0078", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]} x',
        b'{"inputs": [{"name": "x", "shape": [1152921504606846976], "datatype": "FP32", "data": [1, 2]}]}',
        b'{"inputs": [{"name": "x", "shape": [0], "datatype": "FP32", "data": []}]}',
        b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data":[1, 2],"k\xff": 1}]}',
        b'{"instances": [[1, 2], [3]]}', b'{"instances": [1, 2], "inputs": [1, 2]}', b'{"instances": [[[]]]}',
        b'{"instances": [[1, 2], [3, 4]], "signature_name": "serving_default"}', b'{"inputs": {"x": [1], "z": [2]}}',
        b'{"instances": [' + b"[" * 90 + b"1" + b"]" * 90 + b"]}", b'{"instances": [' + b"[" * 120 + b"]" * 120 + b"]}",
    ],
)  # fmt: skip
def test_bodies_that_are_odd_beside_their_lists(body):
    (fast_v2, slow_v2), (fast_v1, slow_v1) = readers(FP32, 1)
    assert fast_v2(body) == slow_v2(body)
    assert fast_v1(body) == slow_v1(body)


def test_each_list_reaches_its_own_input(counted):
    (fast_v2, slow_v2), (fast_v1, slow_v1) = readers(FP32, 1, inputs=("a", "b"))
    body = orjson.dumps(
        {
            "inputs": [
                {"data": [3.0, 4.0], "datatype": "FP32", "name": "b", "shape": [2]},
                {"name": "a", "shape": [2], "datatype": "FP32", "data": [1.0, 2.0]},
            ]
        }
    )
    assert fast_v2(body) == slow_v2(body)
    assert fast_v2(body)[0]["b"][2] == np.array([3, 4], np.float32).tobytes()
    columns = b'{"inputs": {"b": [3, 4], "a": [1, 2]}}'
    assert fast_v1(columns) == slow_v1(columns)
    assert len(counted) == 6


def test_a_long_body_takes_the_way_by_itself(counted):
    signature = Signature(
        [TensorSpec("x", FP32, (None,), "tensor(float)")], [TensorSpec("y", FP32, (None,), "tensor(float)")]
    )
    for count, lists in ((100, 0), (2000, 1)):
        array = np.random.default_rng(count).random(count).astype(np.float32)
        body = v2_body(json.dumps(array.tolist()), [count])
        assert np.array_equal(v2.read_request(body, None, signature).feeds["x"], array)
        assert len(counted) == lists


def test_without_simdjson_the_thorough_reader_reads_everything(monkeypatch):
    monkeypatch.setattr(json_numbers, "simdjson", None)
    body = v2_body(json.dumps(list(range(3000))), [3000])
    assert v2.read_request(body, None, model(FP32, 1, 0)).feeds["x"].sum() == sum(range(3000))


def test_a_reader_that_is_in_use_is_not_shared():
    array = json_numbers._parse(b"[1, 2, 3]", "d", np.dtype(np.float64))
    other = json_numbers._parse(b"[4, 5, 6]", "d", np.dtype(np.float64))
    assert array.tolist() == [1, 2, 3]
    assert other.tolist() == [4, 5, 6]
