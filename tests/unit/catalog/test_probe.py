import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.catalog.probe import probe
from service.engine.options import EngineOptions
from service.engine.session import open_session


def value(name, shape=("n", 4), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def curve_of(tmp_path, nodes, out=("n", 4), inputs=None, initializers=(), limit=64):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], [value("y", out)], list(initializers))
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    session = open_session(path, EngineOptions(), 1)
    return probe(session.run, session.inputs, session.outputs, limit, 0.2)


def test_a_wide_matrix_is_merged_and_measured(tmp_path):
    size = 512
    weights = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    curve = curve_of(tmp_path, nodes, ("n", size), [value("x", ("n", size))], [constant("w", weights)])
    assert curve.merges
    assert curve.best_rows > 1
    assert curve.deviation < 1e-4
    measured = dict(curve.rows_us)
    assert measured[curve.best_rows] < measured[1]


ZERO, LAST = np.array([0], np.int64), np.array([-1], np.int64)
DEPENDENT = {
    "softmax over the batch": [helper.make_node("Softmax", ["x"], ["y"], axis=0)],
    "mean over the batch": [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"]),
    ],
    "running sum": [helper.make_node("CumSum", ["x", "axis"], ["y"])],
    "reversed rows": [
        helper.make_node("Slice", ["x", "last", "first", "zero", "last"], ["y"]),
    ],
    "only the last row sees the others": [
        helper.make_node("ReduceSum", ["x", "zero"], ["s"], keepdims=1),
        helper.make_node("Slice", ["x", "zero", "last", "zero"], ["head"]),
        helper.make_node("Concat", ["head", "s"], ["y"], axis=0),
    ],
    "only the first row sees the others": [
        helper.make_node("ReduceSum", ["x", "zero"], ["s"], keepdims=1),
        helper.make_node("Slice", ["x", "one", "far", "zero"], ["tail"]),
        helper.make_node("Concat", ["s", "tail"], ["y"], axis=0),
    ],
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_depend_on_each_other_are_never_merged(tmp_path, name):
    constants = [
        constant("axis", np.array(0, np.int64)),
        constant("zero", ZERO),
        constant("last", LAST),
        constant("one", np.array([1], np.int64)),
        constant("far", np.array([2**40], np.int64)),
        constant("first", np.array([-(2**40)], np.int64)),
    ]
    used = {name for node in DEPENDENT[name] for name in node.input}
    curve = curve_of(tmp_path, DEPENDENT[name], initializers=[c for c in constants if c.name in used])
    assert not curve.merges
    assert "differs in a batch" in curve.reason or "no row for each row" in curve.reason


def test_nonzero_has_no_row_for_each_row(tmp_path):
    nodes = [helper.make_node("NonZero", ["x"], ["z"]), helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT)]
    curve = curve_of(tmp_path, nodes, ("a", "b"))
    assert not curve.merges
    assert "first dimension of 'y' is fixed" in curve.reason  # ONNX Runtime infers the number of dimensions


@pytest.mark.parametrize(
    ("inputs", "out", "words"),
    [
        ([value("x", (1, 4))], (1, 4), "first dimension of 'x' is fixed"),
        ([value("x", ("n", 4))], (1, 4), "first dimension of 'y' is fixed"),
        ([value("x", None)], ("n", 4), "rank of 'x' is unknown"),
        ([value("x", ())], (), "first dimension of 'x' is fixed"),
    ],
)
def test_models_without_a_free_first_dimension(tmp_path, inputs, out, words):
    curve = curve_of(tmp_path, [helper.make_node("Identity", ["x"], ["y"])], out, inputs)
    assert not curve.merges
    assert curve.best_rows == 0
    assert words in curve.reason


def test_a_model_that_random_values_do_not_fit(tmp_path):
    table = constant("t", np.zeros((1, 4), np.float32))
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"])]
    curve = curve_of(tmp_path, nodes, ("n", 4), [value("i", ("n",), TensorProto.INT64)], [table])
    assert not curve.merges
    assert "could not run" in curve.reason


def test_a_model_that_fails_at_some_size_is_merged_up_to_the_sizes_before(tmp_path):
    """A table of eight rows is enough for eight; a batch of 16 fails."""
    size = 512
    weights = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    nodes = [
        helper.make_node("Shape", ["x"], ["all"], start=0, end=1),
        helper.make_node("ConstantOfShape", ["all"], ["ones"], value=numpy_helper.from_array(np.array([1]))),
        helper.make_node("CumSum", ["ones", "axis"], ["counted"]),
        helper.make_node("Sub", ["counted", "one"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["row"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "row"], ["y"]),
    ]
    constants = [
        constant("axis", np.array(0, np.int64)),
        constant("one", np.array(1, np.int64)),
        constant("table", np.zeros((8, 1), np.float32)),
        constant("w", weights),
    ]
    curve = curve_of(tmp_path, nodes, ("n", size), [value("x", ("n", size))], constants)
    assert [rows for rows, _ in curve.rows_us] == [1, 2, 4, 8]
    assert curve.merges
    assert curve.best_rows <= 8
