"""Comma-separated numbers: exact or refused with line and column."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from service.errors import InvalidRequest, InvalidValue, MalformedBody, ServiceError, ShapeMismatch
from service.tensors import BF16, BOOL, BYTES, FP16, FP32, FP64, INT64, UINT8, Tensor, TensorSpec
from service.wire.csv_text import read_csv, write_csv


def spec(datatype, shape=(None, 2)):
    return TensorSpec("x", datatype, shape, f"tensor({datatype.onnx})")


def tensor(array, datatype):
    return Tensor(spec(datatype, None), array)


@pytest.mark.parametrize("body", [b"1.5,2\n-3e2,.5\n", b"1.5,2\r\n-3e2,.5", b' 1.5 ,"2"\n\n-3E2,+0.5\n\n'])
def test_a_line_is_a_row(body):
    array = read_csv(body, spec(FP32))
    assert array.dtype == np.float32
    assert array.tolist() == [[1.5, 2.0], [-300.0, 0.5]]


def test_one_column_for_a_vector():
    assert read_csv(b"1\n2\n3\n", spec(INT64, (None,))).tolist() == [1, 2, 3]


def test_one_column_for_a_matrix():
    assert read_csv(b"1\n2\n", spec(INT64, (None, 1))).tolist() == [[1], [2]]


def test_unknown_rank_gives_a_matrix():
    assert read_csv(b"1,2\n", spec(FP64, None)).tolist() == [[1.0, 2.0]]


def test_whole_numbers_stay_exact():
    body = b"9007199254740993,-9223372036854775808\n+9007199254740993,007\n"
    assert read_csv(body, spec(INT64)).tolist() == [[2**53 + 1, -(2**63)], [2**53 + 1, 7]]


@pytest.mark.parametrize("word", ["NaN", "nan", "Infinity", "inf", "-Infinity", "-inf"])
def test_floats_need_not_be_finite(word):
    (value,) = read_csv(word.encode(), spec(FP32, (None, 1))).ravel()
    assert str(value) == str(float(word))


@pytest.mark.parametrize(
    ("datatype", "cell"),
    [
        (UINT8, "300"),
        (UINT8, "-1"),
        (INT64, "1.5"),
        (INT64, "NaN"),
        (INT64, "9223372036854775808"),
        (FP16, "70000"),
        (FP32, "1e39"),
    ],
)
def test_a_number_that_does_not_fit_is_named(datatype, cell):
    with pytest.raises(InvalidValue, match=rf"line 3, value 2 of the CSV: .* {datatype.name} .*'x', got '.{cell[1:]}'"):
        read_csv(f"1,2\n\n3,{cell}\n".encode(), spec(datatype))


@pytest.mark.parametrize(
    "cell",
    ["", "abc", "true", "null", "[1]", '{"a":1}', "1_000", "1 2", "0x10", "1e400", '"""1"""', "1;2", "\x00"],
)
def test_a_cell_that_is_no_number_is_named(cell):
    quoted = cell if cell.startswith('"') else f'"{cell.replace(chr(34), chr(34) * 2)}"'
    with pytest.raises(MalformedBody, match="line 2"):
        read_csv(f"1,2\n3,{quoted}\n".encode(), spec(FP64))


def test_a_header_line_is_no_number():
    with pytest.raises(MalformedBody, match="line 1, value 1 of the CSV: expected a finite number, got 'width'"):
        read_csv(b"width,height\n1,2\n", spec(FP32))


@pytest.mark.parametrize("body", [b"", b"\n\n", b"\r\n"])
def test_an_empty_body_is_malformed(body):
    with pytest.raises(MalformedBody, match="empty body"):
        read_csv(body, spec(FP32))


@pytest.mark.parametrize("body", [b'1,"2\n', b'1,"2"3\n', b"1,2\x00\n", b"1," + b"2" * 200_000])
def test_broken_csv_is_a_clients_error(body):
    with pytest.raises(ServiceError) as caught:
        read_csv(body, spec(FP32))
    assert caught.value.status == 400


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InvalidRequest, match="not valid UTF-8"):
        read_csv(b"1,\xff\n", spec(FP32))


def test_ragged_lines_are_named():
    with pytest.raises(ShapeMismatch, match="line 4 of the CSV has 1 values, line 1 has 2"):
        read_csv(b"1,2\n3,4\n\n5\n", spec(FP32))


def test_the_width_is_the_models():
    with pytest.raises(ShapeMismatch, match=r"expected shape \[-1, 2\], got \[1, 3\]"):
        read_csv(b"1,2,3\n", spec(FP32))


@pytest.mark.parametrize("declared", [spec(BYTES), spec(BOOL), spec(FP32, (None, 2, 2)), spec(FP32, ())])
def test_other_inputs_are_told_to_send_json(declared):
    with pytest.raises(InvalidRequest, match="send JSON"):
        read_csv(b"1,2\n", declared)


def test_bf16_is_rounded_to_its_bits():
    assert read_csv(b"1,-2\n", spec(BF16)).tolist() == [[0x3F80, 0xC000]]


def test_outputs_stand_side_by_side():
    labels = tensor(np.array(["a,b", 'say "hi"'], object), BYTES)
    scores = tensor(np.array([[0.1, 0.5], [1e-20, 3]], np.float32), FP32)
    assert write_csv([labels, scores]) == b'"a,b",0.1,0.5\n"say ""hi""",1e-20,3.0\n'


def test_higher_ranks_are_flat_rows():
    assert write_csv([tensor(np.arange(8).reshape(2, 2, 2), INT64)]) == b"0,1,2,3\n4,5,6,7\n"


def test_a_scalar_is_one_cell():
    assert write_csv([tensor(np.array(7), INT64)]) == b"7\n"


def test_no_rows_are_no_lines():
    assert write_csv([tensor(np.zeros((0, 3), np.float32), FP32)]) == b""


def test_bf16_is_written_as_a_number():
    assert write_csv([tensor(np.array([0x3FC0], np.uint16), BF16)]) == b"1.5\n"


def test_answers_read_back_to_the_same_numbers():
    array = np.random.default_rng(1).standard_normal((5, 2)).astype(np.float32)
    array[0, 0] = math.nan
    array[1, 1] = -math.inf
    back = read_csv(write_csv([tensor(array, FP32)]), spec(FP32))
    assert np.array_equal(back, array, equal_nan=True)


def test_text_with_a_line_break_stays_one_cell():
    body = write_csv([tensor(np.array(["a\nb"], object), BYTES), tensor(np.array([1]), INT64)])
    assert list(csv.reader(io.StringIO(body.decode()))) == [["a\nb", "1"]]


def test_different_numbers_of_rows_are_refused():
    with pytest.raises(InvalidRequest, match="different numbers of rows"):
        write_csv([tensor(np.zeros(2), FP64), tensor(np.zeros(3), FP64)])
