import numpy as np
import orjson
import pytest

from service.errors import (
    InvalidRequest,
    InvalidValue,
    MalformedBody,
    MissingTensor,
    ShapeMismatch,
    UnknownTensor,
)
from service.tensors import BF16, BYTES, FP32, INT64, Tensor, TensorSpec
from service.wire import v1, v1_answer
from service.wire.signature import Signature


def spec(name, datatype, shape, **more):
    return TensorSpec(name, datatype, shape, f"tensor({datatype.onnx})", **more)


ONE = Signature([spec("x", INT64, ("n", None))], [spec("y", FP32, ("n",))])
TWO = Signature(
    [spec("a", FP32, (None, 2)), spec("b", FP32, (None, 1))],
    [spec("p", FP32, (None, 2)), spec("s", FP32, (None,))],
)
TEXT = Signature([spec("t", BYTES, (None,))], [spec("o_bytes", BYTES, (None,))])


def read(value, signature=ONE):
    return v1.read_request(orjson.dumps(value), signature)


def test_rows_of_one_input_bare_or_named():
    for instances in ([[1, 2], [3, 4]], [{"x": [1, 2]}, {"x": [3, 4]}]):
        request = read({"instances": instances, "signature_name": "serving_default"})
        assert request.feeds["x"].tolist() == [[1, 2], [3, 4]]
        assert request.rows == 2


def test_rows_of_two_inputs_in_any_order():
    request = read({"instances": [{"b": [3], "a": [1, 2]}, {"a": [4, 5], "b": [6]}]}, TWO)
    assert request.feeds["a"].tolist() == [[1, 2], [4, 5]]
    assert request.feeds["b"].tolist() == [[3], [6]]


def test_columns_by_name_or_bare():
    assert read({"inputs": {"a": [[1, 2]], "b": [[3]]}}, TWO).rows is None
    assert read({"inputs": [[1, 2]]}).feeds["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("value", "signature", "error", "words"),
    [
        ([], ONE, MalformedBody, "got a list"),
        ({}, ONE, MalformedBody, "neither"),
        ({"instances": [], "inputs": []}, ONE, MalformedBody, "both"),
        ({"instances": 5}, ONE, MalformedBody, "got 5"),
        ({"instances": [[1, 2], [3]]}, ONE, ShapeMismatch, "list 1 has length 1, list 0 has 2"),
        ({"instances": [1, [2]]}, ONE, ShapeMismatch, "mixed"),
        ({"instances": [[1, 2.5]]}, ONE, InvalidValue, "2.5"),
        ({"instances": [[1, "2"]]}, ONE, InvalidValue, "'2'"),
        ({"instances": [1, 2]}, ONE, ShapeMismatch, "expected shape [n, -1], got [2]"),
        ({"instances": [{"a": [1, 2]}, {"a": [1, 2], "b": [3]}]}, TWO, MissingTensor, "'b'"),
        ({"instances": [{"a": [1, 2], "b": [3]}, {"a": [1, 2]}]}, TWO, MissingTensor, "row 1: input 'b'"),
        ({"instances": [{"a": [1, 2], "b": [3]}, [4, 5]]}, TWO, MalformedBody, "row 1"),
        ({"instances": [[4, 5], {"a": [1, 2], "b": [3]}]}, TWO, MalformedBody, "row 0"),
        ({"instances": [0, {}]}, ONE, MalformedBody, "row 0: expected an object"),
        ({"instances": [{"a": [1, 2], "c": [3]}]}, TWO, UnknownTensor, "no input 'c'"),
        (
            {"instances": [{"a": [1, 2], "b": [3]}, {"a": [1, 2], "b": [3], "c": 1}]},
            TWO,
            UnknownTensor,
            "'c'",
        ),
        ({"instances": [[1, 2]]}, TWO, InvalidRequest, "name them"),
        ({"inputs": {"a": [[1, 2]]}}, TWO, MissingTensor, "'b'"),
        ({"inputs": [1]}, TWO, InvalidRequest, "name them"),
        ({"instances": [{"b64": "%"}]}, TEXT, InvalidValue, "base64"),
    ],
)
def test_what_does_not_fit_is_named(value, signature, error, words):
    with pytest.raises(error) as caught:
        read(value, signature)
    assert words in str(caught.value)


def test_no_rows():
    request = read({"instances": []})
    assert request.feeds["x"].shape == (0, 0)
    assert request.rows == 0
    wide = Signature([spec("x", FP32, ("n", 4))], [])
    assert read({"instances": []}, wide).feeds["x"].shape == (0, 4)


def test_base64_is_a_value_and_not_a_name():
    assert read({"instances": [{"b64": "Y2Fmw6k="}, "x"]}, TEXT).feeds["t"].tolist() == ["café", "x"]
    assert read({"instances": [{"t": "named"}]}, TEXT).feeds["t"].tolist() == ["named"]
    assert read({"inputs": {"b64": "Y2Fmw6k="}}, Signature([spec("t", BYTES, ())], [])).feeds["t"].item() == "café"


def write(request, *tensors):
    return orjson.loads(v1_answer.write_answer(request, tensors))


def test_one_output_is_bare_and_several_are_objects():
    rows = v1.V1Request({}, ("p", "s"), 2)
    p = Tensor(TWO.outputs[0], np.array([[1, 2], [3, 4]], np.float32))
    s = Tensor(TWO.outputs[1], np.array([0.5, np.nan], np.float32))
    assert write(rows, p) == {"predictions": [[1, 2], [3, 4]]}
    assert write(rows, p, s) == {"predictions": [{"p": [1, 2], "s": 0.5}, {"p": [3, 4], "s": None}]}
    columns = v1.V1Request({}, ("p", "s"), None)
    assert write(columns, p, s) == {"outputs": {"p": [[1, 2], [3, 4]], "s": [0.5, None]}}
    assert write(columns, s) == {"outputs": [0.5, None]}


@pytest.mark.parametrize("kind", [np.longlong, np.ulonglong, np.int64, np.uint64])
def test_64_bit_integers_of_either_c_type(kind):
    labels = Tensor(spec("l", INT64, (None,)), np.array([7, 2**62], kind))
    other = Tensor(spec("s", FP32, (None,)), np.array([0.5, 1], np.float32))
    rows = v1.V1Request({}, ("l", "s"), 2)
    assert write(rows, labels, other) == {"predictions": [{"l": 7, "s": 0.5}, {"l": 2**62, "s": 1}]}
    one = Tensor(spec("l", INT64, ()), np.array(2**62, kind))
    assert write(v1.V1Request({}, ("l",), None), one) == {"outputs": 2**62}


def test_outputs_without_rows_are_refused_for_rows_only():
    total = Tensor(spec("total", FP32, ()), np.array(15, np.float32))
    with pytest.raises(InvalidRequest, match="'total' has shape"):
        write(v1.V1Request({}, ("total",), 2), total)
    assert write(v1.V1Request({}, ("total",), None), total) == {"outputs": 15}


def test_maps_strings_bytes_and_bf16():
    rows = v1.V1Request({}, ("o",), 2)
    scores = Tensor(spec("o", FP32, None), np.array([[0.25, 0.75], [1, 0]], np.float32), ("no", "yes"))
    assert write(rows, scores) == {"predictions": [{"no": 0.25, "yes": 0.75}, {"no": 1, "yes": 0}]}
    assert write(rows, Tensor(spec("o", BYTES, None), np.array(["a", "é"], object))) == {"predictions": ["a", "é"]}
    assert write(rows, Tensor(TEXT.outputs[0], np.array(["a", "é"], object))) == {
        "predictions": [{"b64": "YQ=="}, {"b64": "w6k="}]
    }
    assert write(rows, Tensor(spec("o", BF16, None), np.array([0x3FC0, 0], np.uint16))) == {"predictions": [1.5, 0]}
