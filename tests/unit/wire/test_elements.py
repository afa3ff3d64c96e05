import math

import numpy as np
import pytest

from service.errors import InvalidValue, ShapeMismatch
from service.tensors import BF16, BOOL, BYTES, DATATYPES, FP16, FP32, FP64, INT32, INT64, UINT8, UINT64
from service.wire.elements import read_elements
from service.wire.narrowing import round_to_bf16, widen_bf16
from service.wire.nesting import Place, infer_shape

PLACE = Place("x", "/inputs/0/data")


def read(data, shape, datatype):
    return read_elements(data, shape, datatype, PLACE)


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]], [[1.0, 2, 3], [4, 5.0, 6]]])
def test_flat_and_nested_give_the_same_array(data):
    array = read(data, (2, 3), FP32)
    assert array.dtype == np.float32
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("data", "shape", "words"),
    [
        ([1, 2], (2, 3), "holds 6 elements, the data has 2"),
        ([], (), "holds 1 elements, the data has 0"),
        ([[1, 2, 3], [4, 5]], (2, 3), "list 1 has length 2"),
        ([[1, 2], [3, 4], [5, 6]], (2, 3), "lists of length 2 in dimension 0"),
        ([[[1, 2, 3]], [[4, 5, 6]]], (2, 3), "lists of length 3 in dimension 1"),
        ([[1, 2, 3], 4], (2, 3), "values and lists are mixed"),
        (5, (1,), "expected a list of 1 elements, got 5"),
        ([[1], [[2]]], (2, 1), "nesting"),
    ],
)
def test_data_that_does_not_fit_its_shape_is_refused_with_its_place(data, shape, words):
    with pytest.raises(ShapeMismatch, match="input 'x'") as caught:
        read(data, shape, FP32)
    assert words in str(caught.value)
    assert caught.value.pointer == "/inputs/0/data"


def test_a_scalar_may_stand_alone_or_in_a_list():
    assert read(2.5, (), FP32).shape == read([2.5], (), FP32).shape == ()


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (0,)])
def test_no_elements_keep_their_shape(shape):
    data = [[] for _ in range(shape[0])] if shape[0] else []
    assert read(data, shape, FP32).shape == shape


@pytest.mark.parametrize(
    ("value", "datatype", "words"),
    [
        (300, UINT8, "a whole number from 0 to 255 for UINT8, got 300"),
        (-1, UINT8, "got -1"),
        (1.5, UINT8, "a whole number for UINT8, got 1.5"),
        ("1", INT32, "got '1'"),
        (True, INT64, "got true"),
        (None, INT64, "got null"),
        (2**63, INT64, "for INT64"),
        (float(2**53), INT64, "within 2^53"),
        (float(2**63), INT64, "within 2^53"),
        (-9.223372036854776e18, INT64, "within 2^53"),
        ("1.5", FP32, "a number for FP32, got '1.5'"),
        (True, FP32, "got true"),
        ({"a": 1}, FP32, "got an object"),
        (1e39, FP32, "in the range of the datatype for FP32"),
        (3.4028235677973366e38, FP32, "for FP32"),
        (65520.0, FP16, "for FP16"),
        (3.4e38, BF16, "for BF16"),
        (10**400, FP64, "for FP64"),
        ("false", BOOL, "true or false for BOOL, got 'false'"),
        (2, BOOL, "got 2"),
        (1.0, BOOL, "got 1.0"),
        (5, BYTES, 'a string or {"b64"'),
        ({"b64": "%%%"}, BYTES, "no valid base64"),
        ({"b64": "AAAA="}, BYTES, "multiple of 4"),
        ({"b64": "/w=="}, BYTES, "not valid UTF-8"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_element(value, datatype, words):
    good = {"float": 0.5, "int": 1, "bool": True, "bytes": "a"}[datatype.kind]
    for position in (0, 3):
        data = [good] * 4
        data[position] = value
        with pytest.raises(InvalidValue) as caught:
            read(data, (4,), datatype)
        assert f"element {position}" in str(caught.value)
        assert words in str(caught.value)


def test_out_of_range_behind_a_nan_is_still_seen():
    with pytest.raises(InvalidValue, match="element 1"):
        read([None, 1e39], (2,), FP32)
    with pytest.raises(InvalidValue, match="element 2"):
        read([0.0, "NaN", -1e39], (3,), FP32)


def test_words_and_null_are_the_numbers_json_lacks():
    array = read(["NaN", "Infinity", "-Infinity", None, 1], (5,), FP64)
    assert math.isnan(array[0])
    assert array[1:3].tolist() == [math.inf, -math.inf]
    assert math.isnan(array[3])


@pytest.mark.parametrize("name", [name for name in DATATYPES if DATATYPES[name].kind == "int"])
def test_limits_of_every_integer_type_are_exact(name):
    datatype = DATATYPES[name]
    limits = np.iinfo(datatype.dtype)
    assert read([limits.min, limits.max], (2,), datatype).tolist() == [limits.min, limits.max]
    for beyond in (limits.min - 1, limits.max + 1):
        with pytest.raises(InvalidValue, match=name):
            read([beyond], (1,), datatype)


def test_integers_beyond_2_to_53_and_whole_floats():
    assert read([2**53 + 1, 3.0], (2,), INT64).tolist() == [2**53 + 1, 3]
    assert read([2**64 - 1], (1,), UINT64).tolist() == [2**64 - 1]


def test_half_is_rounded_once():
    # 1 + 2^-11 + 2^-40 lies just above the middle of two halves; via float32 it would fall on it.
    value = 1 + 2**-11 + 2**-40
    assert read([value], (1,), FP16)[0] == np.float16(1 + 2**-10)


def test_bf16_is_rounded_once_to_nearest_even():
    step = 2.0**-7
    cases = {
        1 + step / 2: 1.0,
        1 + step / 2 + 2**-40: 1 + step,
        1 + step / 2 - 2**-40: 1.0,
        1 + 3 * step / 2: 1 + 2 * step,
        -(1 + step / 2 + 2**-40): -(1 + step),
        0.1: 0.10009765625,
    }
    array = np.array(list(cases))
    assert widen_bf16(round_to_bf16(array)).tolist() == list(cases.values())
    assert math.isnan(widen_bf16(round_to_bf16(np.array([math.nan])))[0])
    assert widen_bf16(round_to_bf16(np.array([math.inf, -math.inf]))).tolist() == [math.inf, -math.inf]


def test_strings_keep_everything():
    data = ["", "a\0b", "日本", {"b64": "Y2Fmw6k="}]
    assert read(data, (2, 2), BYTES).tolist() == [["", "a\0b"], ["日本", "café"]]


@pytest.mark.parametrize(
    ("data", "shape"),
    [(5, ()), ([], (0,)), ([[], []], (2, 0)), ([[1, 2], [3, 4]], (2, 2)), ([[[1]]], (1, 1, 1))],
)
def test_shape_is_inferred_from_nesting(data, shape):
    assert infer_shape(data, PLACE)[1] == shape


@pytest.mark.parametrize("data", [[[1, 2], [3]], [1, [2]], [[1], 2], [[1, 2], [3, [4]]], [[[1]], [2]]])
def test_uneven_nesting_is_refused(data):
    with pytest.raises(ShapeMismatch, match="input 'x'"):
        infer_shape(data, PLACE)
