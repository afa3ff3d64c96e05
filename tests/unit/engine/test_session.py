import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from service.engine.options import EngineOptions, Provider
from service.engine.session import open_session
from service.engine.warm_up import synthetic
from service.errors import ModelLoadError, RefusedByModel, RunFailed
from service.tensors import BF16, FP32


def model(path, nodes, inputs, outputs, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, **more)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, path)
    return path


def value(name, kind=TensorProto.FLOAT, shape=("n",)):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def identity(tmp_path):
    def make(kind=TensorProto.FLOAT, shape=("n", 2)):
        node = helper.make_node("Identity", ["x"], ["y"])
        return model(tmp_path / "m.onnx", [node], [value("x", kind, shape)], [value("y", kind, shape)])

    return make


def test_a_run_gives_the_outputs_in_the_order_asked(tmp_path):
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    path = model(tmp_path / "m.onnx", nodes, [value("x")], [value("a"), value("b")])
    session = open_session(path, EngineOptions(), 1)
    b, a = session.run({"x": np.array([-2.0], np.float32)}, ["b", "a"])
    assert (a[0], b[0]) == (2.0, 2.0)
    assert session.inputs[0].datatype is FP32
    assert session.inputs[0].shape == ("n",)
    assert session.providers == ("CPUExecutionProvider",)


def test_scalars_and_unknown_ranks_are_told_apart(tmp_path):
    node = helper.make_node("Mul", ["s", "u"], ["y"])
    path = model(tmp_path / "m.onnx", [node], [value("s", shape=()), value("u", shape=None)], [value("y", shape=None)])
    session = open_session(path, EngineOptions(), 1)
    assert [spec.shape for spec in (*session.inputs, *session.outputs)] == [(), None, None]


def test_initializers_are_optional_inputs(tmp_path):
    gain = helper.make_tensor("gain", TensorProto.FLOAT, [], [3.0])
    node = helper.make_node("Mul", ["x", "gain"], ["y"])
    path = model(tmp_path / "m.onnx", [node], [value("x"), value("gain", shape=())], [value("y")], initializer=[gain])
    session = open_session(path, EngineOptions(), 1)
    assert [(spec.name, spec.optional) for spec in session.inputs] == [("x", False), ("gain", True)]
    x = np.array([2.0], np.float32)
    assert session.run({"x": x}, ["y"])[0] == 6.0
    assert session.run({"x": x, "gain": np.array(5.0, np.float32)}, ["y"])[0] == 10.0


def test_bf16_travels_as_bits(identity):
    session = open_session(identity(TensorProto.BFLOAT16), EngineOptions(), 1)
    bits = np.array([[0x3FC0, 0x7FC0]], np.uint16)
    assert session.inputs[0].datatype is BF16
    assert session.run({"x": bits}, ["y"])[0].tolist() == bits.tolist()
    assert session.run({"x": np.zeros((0, 2), np.uint16)}, ["y"])[0].shape == (0, 2)


def test_a_kernel_that_refuses_values_is_the_callers_fault(tmp_path):
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"], name="look_up")]
    path = model(tmp_path / "m.onnx", nodes, [value("t"), value("i", TensorProto.INT64)], [value("y")])
    session = open_session(path, EngineOptions(), 1)
    with pytest.raises(RefusedByModel, match="look_up"):
        session.run({"t": np.zeros(2, np.float32), "i": np.array([9])}, ["y"])


def test_a_kernel_that_fails_says_nothing_of_its_insides(tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "d"], ["y"])]
    path = model(tmp_path / "m.onnx", nodes, [value("x"), value("d", TensorProto.INT64)], [value("y", shape=None)])
    session = open_session(path, EngineOptions(), 1)
    with pytest.raises((RunFailed, RefusedByModel)) as caught:
        session.run({"x": np.zeros(6, np.float32), "d": np.array([4, 4])}, ["y"])
    assert "onnxruntime" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x08", b"not a model at all, only text", b"\x3a\xff\xff\xff\xff\x0f"])
def test_files_that_are_no_model_have_a_reason(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match="m.onnx"):
        open_session(path, EngineOptions(), 1)


def test_a_truncated_model_has_a_reason(identity):
    path = identity()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelLoadError):
        open_session(path, EngineOptions(), 1)


CUDA = Provider("CUDAExecutionProvider", ())
CPU = Provider("CPUExecutionProvider", ())


def test_a_missing_provider_fails_with_what_is_there_and_what_to_install(identity):
    with pytest.raises(ModelLoadError) as caught:
        open_session(identity(), EngineOptions(providers=(CUDA, CPU)), 1)
    for words in ("CUDAExecutionProvider", "CPUExecutionProvider", "onnxruntime-gpu", "on_missing_provider"):
        assert words in str(caught.value)


def test_a_missing_provider_is_passed_over_when_allowed(identity):
    options = EngineOptions(providers=(CUDA, CPU), on_missing_provider="next")
    session = open_session(identity(), options, 1)
    assert session.providers == ("CPUExecutionProvider",)
    assert session.nodes == {}
    (note,) = session.notes
    assert note.endswith("until then the model goes on with the next in `providers`")
    with pytest.raises(ModelLoadError, match="CUDA"):
        open_session(identity(), EngineOptions(providers=(CUDA,), on_missing_provider="next"), 1)


def test_threads_are_the_lanes_unless_the_model_names_its_own(identity):
    path = identity()
    assert open_session(path, EngineOptions(), 2).threads == 2
    assert open_session(path, EngineOptions(threads=1), 2).threads == 1


def test_free_dimensions_are_fixed(identity):
    session = open_session(identity(), EngineOptions(free_dimensions=(("n", 4),)), 1)
    assert session.inputs[0].shape == (4, 2)


def test_synthetic_inputs_fit(identity):
    for kind in (TensorProto.FLOAT, TensorProto.STRING, TensorProto.BOOL, TensorProto.INT8):
        session = open_session(identity(kind), EngineOptions(), 1)
        feeds = synthetic(session.inputs)
        assert session.run(feeds, ["y"])[0].shape == (1, 2)
