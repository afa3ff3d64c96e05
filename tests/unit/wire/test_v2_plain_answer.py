"""The writer of plain answers gives the bytes of the general one, or nothing."""

import numpy as np
import pytest

from service.tensors import FP32, FP64, INT64, Tensor, TensorSpec
from service.wire import v2_answer
from service.wire.signature import Signature
from service.wire.v2_plain import PlainRequest
from service.wire.v2_plain_answer import PlainWriter, fits

Y = TensorSpec('a "name" é', FP32, (None, None), "tensor(float)")
Z = TensorSpec("z", FP64, (None,), "tensor(double)")
ODD = [1.5, -0.0, np.nan, np.inf, 1e-45, 3.4028235e38, 0.1]


@pytest.mark.parametrize(
    "arrays", [[np.array([ODD], np.float32)], [np.zeros((0, 3), np.float32)], [np.float32([[[2]]])]]
)
def test_one_output(arrays):
    assert_same([Y], arrays)


def test_several_outputs_and_shapes_again():
    for rows in (1, 3, 1):
        assert_same([Y, Z], [np.ones((rows, 2), np.float32), np.array(ODD[:rows], np.float64)])


def test_a_row_of_a_batch():
    assert_same([Y], [np.arange(12, dtype=np.float32).reshape(4, 3)[2:3]])


def test_what_is_not_in_one_piece_is_left_to_the_general_writer():
    scattered = np.arange(12, dtype=np.float32).reshape(4, 3).T
    assert PlainWriter("m", "1", [Y]).write([scattered]) is None


def test_more_shapes_than_are_remembered():
    writer = PlainWriter("m", "1", [Y])
    for rows in range(300):
        assert b'"shape":[%d,1]' % rows in writer.write([np.zeros((rows, 1), np.float32)])
    assert len(writer._shapes) < 300


def test_it_writes_floats_only():
    assert fits([Y, Z])
    assert not fits([Y, TensorSpec("n", INT64, (None,), "tensor(int64)")])
    assert not fits([TensorSpec("p", FP32, (None,), "seq(map(string,tensor(float)))", class_map=True)])


def assert_same(specs, arrays):
    request = PlainRequest(None, {}, tuple(spec.name for spec in specs))
    tensors = [Tensor(spec, array) for spec, array in zip(specs, arrays, strict=True)]
    text, _ = v2_answer.write_answer("a model", "3", request, tensors, Signature([], specs))
    assert PlainWriter("a model", "3", specs).write(arrays) == text
