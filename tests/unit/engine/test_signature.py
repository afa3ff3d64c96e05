import onnx
import pytest
from onnx import TensorProto, helper

from service.engine.protobuf import WireFormatError, fields, varint
from service.engine.signature import read_declared
from service.errors import ModelLoadError


def save(path, inputs, outputs, initializers=()):
    node = helper.make_node("Identity", [inputs[0].name], [outputs[0].name])
    graph = helper.make_graph([node], "g", inputs, outputs, list(initializers))
    onnx.save(helper.make_model(graph), path)
    return read_declared(path)


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_every_kind_of_dimension(tmp_path):
    declared = save(tmp_path / "m.onnx", [value("x", [3, "batch", None, 0])], [value("y", None)])
    assert declared.inputs == {"x": (3, "batch", None, 0)}
    assert declared.outputs == {"y": None}
    assert declared.external == frozenset()


def test_scalars_sequences_and_odd_names(tmp_path):
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    declared = save(tmp_path / "m.onnx", [value("é:0/ 世", [])], [sequence])
    assert declared.inputs == {"é:0/ 世": ()}
    assert declared.outputs == {"s": None}


def test_external_files_are_listed(tmp_path):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    weight.external_data.add(key="length", value="4")
    declared = save(tmp_path / "m.onnx", [value("x", [1])], [value("y", [1])], [weight])
    assert declared.external == {"w.bin"}


@pytest.mark.parametrize(
    "data", [b"\x80", b"\xff" * 11, b"\x0a\x05ab", b"\x0f", b"\x0d\x01\x02", b"\x09" + b"\x01" * 7]
)
def test_bytes_that_are_no_protocol_buffer(data):
    with pytest.raises(WireFormatError):
        list(fields(memoryview(data)))


def test_numbers_of_every_length():
    for number in (0, 1, 127, 128, 300, 2**32, 2**63 - 1):
        raw, rest = bytearray(), number
        while True:
            raw.append(rest & 0x7F | (0x80 if rest > 0x7F else 0))
            rest >>= 7
            if not rest:
                break
        assert varint(memoryview(bytes(raw)), 0) == (number, len(raw))


def test_files_that_can_not_be_read(tmp_path):
    with pytest.raises(ModelLoadError, match="can't be read"):
        read_declared(tmp_path / "none.onnx")
    (tmp_path / "nograph.onnx").write_bytes(b"\x08\x08")
    with pytest.raises(ModelLoadError, match="no graph"):
        read_declared(tmp_path / "nograph.onnx")
