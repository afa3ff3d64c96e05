"""Weights that lie outside a model's folder are refused, so that a model can't read other files of the machine."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import pytest
from onnx import TensorProto, helper

from service.engine.options import EngineOptions
from service.engine.session import open_session
from service.errors import ModelLoadError

WEIGHTS = np.arange(256, dtype="<f4")


@pytest.fixture
def place(tmp_path):
    """A folder for the model, and beside it one with weights of somebody else."""
    (tmp_path / "model" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.bin").write_bytes(WEIGHTS.tobytes())
    return tmp_path


def opened(place, location, *, as_constant=False):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[256], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "1024")):
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor)] if as_constant else []
    nodes.append(helper.make_node("Add", ["x", "w"], ["y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [256]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], initializer=[] if as_constant else [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = place / "model" / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return open_session(path, EngineOptions(), 1)


INSIDE = {
    "beside": lambda folder: (folder / "w.bin").write_bytes(WEIGHTS.tobytes()),
    "a link inside": lambda folder: (
        (folder / "sub" / "real").write_bytes(WEIGHTS.tobytes()),
        (folder / "w.bin").symlink_to("sub/real"),
    ),
}


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("make", INSIDE.values(), ids=INSIDE)
def test_weights_in_the_models_folder_are_read(place, make, as_constant):
    make(place / "model")
    [answer] = opened(place, "w.bin", as_constant=as_constant).run({"x": np.zeros(256, "f4")}, ["y"])
    assert answer.tolist() == WEIGHTS.tolist()


OUTSIDE = {
    "a folder above": ("../other/w.bin", lambda place: None),
    "a folder above, by way of one below": ("sub/../../other/w.bin", lambda place: None),
    "absolute": ("{place}/other/w.bin", lambda place: None),
    "a link": ("w.bin", lambda place: (place / "model" / "w.bin").symlink_to(place / "other" / "w.bin")),
    "a relative link": ("w.bin", lambda place: (place / "model" / "w.bin").symlink_to("../other/w.bin")),
    "a linked folder": ("far/w.bin", lambda place: (place / "model" / "far").symlink_to(place / "other")),
}


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize(("location", "make"), OUTSIDE.values(), ids=OUTSIDE)
def test_weights_outside_of_it_are_refused(place, location, make, as_constant):
    make(place)
    with pytest.raises(ModelLoadError, match=r"External data path validation failed|[Ee]xternal data"):
        opened(place, location.format(place=place), as_constant=as_constant)
