import struct
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from service.errors import (
    DatatypeMismatch,
    InvalidRequest,
    InvalidValue,
    MalformedBody,
    MissingTensor,
    NotOffered,
    ShapeMismatch,
    SizeMismatch,
    UnknownTensor,
)
from service.tensors import BF16, BOOL, BYTES, FP16, FP32, INT64, Tensor, TensorSpec
from service.wire import v2, v2_answer
from service.wire.signature import Signature


def spec(name, datatype, shape, **more):
    onnx_type = f"tensor({datatype.onnx})" if datatype else "tensor(float8e4m3fn)"
    return TensorSpec(name, datatype, shape, onnx_type, **more)


X = spec("x", FP32, ("batch", 3))
ONE = Signature([X], [spec("y", FP32, ("batch", 3))])
TWO = Signature(
    [spec("a", INT64, (None,)), spec("b", BYTES, (None,)), spec("gain", FP32, (), optional=True)],
    [spec("p", FP32, (None,)), spec("q", BYTES, (None,))],
)


def document(**members):
    return {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}],
        **members,
    }


def read(value, signature=ONE, json_size=None):
    return v2.read_request(orjson.dumps(value), json_size, signature)


def framed(value, *blobs):
    text = orjson.dumps(value)
    return text + b"".join(blobs), str(len(text))


def test_a_plain_request():
    request = read(document(id="7", parameters={"custom": 1}))
    assert request.feeds["x"].tolist() == [[1, 2, 3]]
    assert (request.id, request.outputs, request.wanted, request.nan) == ("7", ("y",), None, "null")
    assert request.parameters == {"custom": 1}


@pytest.mark.parametrize(
    ("change", "error", "pointer", "words"),
    [
        ({"name": "z"}, UnknownTensor, "/inputs/0/name", "no input 'z'; its inputs are 'x'"),
        ({"name": 5}, MalformedBody, "/inputs/0/name", "'name', got 5"),
        ({"datatype": "FP64"}, DatatypeMismatch, "/inputs/0/datatype", "expected datatype FP32, got 'FP64'"),
        ({"datatype": None}, DatatypeMismatch, "/inputs/0/datatype", "got null"),
        ({"shape": [1, 4]}, ShapeMismatch, "/inputs/0/shape", "expected shape [batch, 3], got [1, 4]"),
        ({"shape": [3]}, ShapeMismatch, "/inputs/0/shape", "got [3]"),
        ({"shape": "1,3"}, MalformedBody, "/inputs/0/shape", "got '1,3'"),
        ({"shape": [1, -3]}, MalformedBody, "/inputs/0/shape", "[1, -3]"),
        ({"shape": [True, 3]}, MalformedBody, "/inputs/0/shape", "True"),
        ({"shape": [1, 3.0]}, MalformedBody, "/inputs/0/shape", "3.0"),
        ({"shape": [10**15, 3]}, ShapeMismatch, "/inputs/0/data", "the data has 3"),
        ({"shape": [2**40, 2**40]}, ShapeMismatch, "/inputs/0/shape", "no tensor can have the shape"),
        ({"shape": [0, 2**62]}, ShapeMismatch, "/inputs/0/shape", "no tensor can have the shape"),
        ({"data": None}, ShapeMismatch, "/inputs/0/data", "got null"),
        ({"parameters": []}, MalformedBody, "/inputs/0/parameters", "a list"),
        ({"parameters": {"a": {}}}, MalformedBody, "/inputs/0/parameters/a", "an object"),
        ({"parameters": {"shared_memory_region": "r"}}, NotOffered, None, "shared memory"),
        (
            {"parameters": {"binary_data_size": 12}},
            MalformedBody,
            None,
            "Inference-Header-Content-Length is missing",
        ),
    ],
)
def test_every_wrong_member_is_named(change, error, pointer, words):
    value = document()
    value["inputs"][0].update(change)
    if "binary_data_size" in str(change):
        del value["inputs"][0]["data"]
        pointer = "/inputs/0/parameters/binary_data_size"
    with pytest.raises(error) as caught:
        read(value)
    assert words in str(caught.value)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("member", ["name", "datatype", "shape", "data"])
def test_every_missing_member_is_named(member):
    value = document()
    del value["inputs"][0][member]
    with pytest.raises(InvalidRequest, match=member):
        read(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "expected a JSON object"),
        ({}, "'inputs', got no such member"),
        ({"inputs": {}}, "got an object"),
        ({"inputs": None}, "got null"),
        ({"inputs": [7]}, "inputs[0]"),
        (document(id=5), "'id', got 5"),
        (document(outputs="y"), "'outputs', got 'y'"),
        (document(outputs=[{"nom": "y"}]), "'name'"),
        (document(outputs=[{"name": "nope"}]), "no output 'nope'"),
        (document(outputs=[{"name": "y"}, {"name": "y"}]), "twice"),
        (document(parameters={"nan": "zero"}), "null, string, token, error"),
        (document(parameters={"binary_data_output": 1}), "true or false"),
        (document(outputs=[{"name": "y", "parameters": {"classification": -1}}]), "classification"),
    ],
)
def test_documents_that_are_no_request(value, words):
    with pytest.raises(InvalidRequest) as caught:
        read(value)
    assert words in str(caught.value)


def test_missing_twice_given_and_optional_inputs():
    with pytest.raises(MissingTensor, match="'b' is missing"):
        read({"inputs": [{"name": "a", "datatype": "INT64", "shape": [1], "data": [1]}]}, TWO)
    value = document()
    value["inputs"] *= 2
    with pytest.raises(UnknownTensor, match="twice"):
        read(value)
    both = {
        "inputs": [
            {"name": "b", "datatype": "BYTES", "shape": [1], "data": ["s"]},
            {"name": "a", "datatype": "INT64", "shape": [1], "data": [1]},
        ]
    }
    assert set(read(both, TWO).feeds) == {"a", "b"}


def test_sequences_are_refused_and_an_empty_sequence_id_is_none():
    with pytest.raises(NotOffered, match="sequence"):
        read(document(parameters={"sequence_id": 5}))
    assert read(document(parameters={"sequence_id": 0})).feeds


def test_binary_and_json_tensors_mix():
    value = {
        "inputs": [
            {"name": "b", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 13}},
            {"name": "a", "datatype": "INT64", "shape": [1], "data": [5]},
            {"name": "gain", "datatype": "FP32", "shape": [], "parameters": {"binary_data_size": 4}},
        ]
    }
    strings = struct.pack("<I", 5) + "a\0é!".encode() + struct.pack("<I", 0)
    body, size = framed(value, strings, struct.pack("<f", 2.5))
    feeds = v2.read_request(body, size, TWO).feeds
    assert feeds["b"].tolist() == ["a\0é!", ""]
    assert feeds["gain"].shape == ()
    assert feeds["gain"] == np.float32(2.5)


def test_unaligned_binary_data_is_copied_to_an_aligned_place():
    value = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}]}
    for padding in range(4):
        value["id"] = "i" * padding
        body, size = framed(value, struct.pack("<3f", 1, 2, 3))
        array = v2.read_request(body, size, ONE).feeds["x"]
        assert array.flags.aligned
        assert array.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("size", ["-1", "abc", "", "1e2", "99999", "9" * 30, "+5", "１２"])  # noqa: RUF001
def test_a_wrong_header_length_is_refused(size):
    body, _ = framed(document())
    with pytest.raises(MalformedBody, match="Inference-Header-Content-Length"):
        v2.read_request(body, size, ONE)


@pytest.mark.parametrize(
    ("shape", "said", "blob", "words"),
    [
        ([1, 3], 12, b"\0" * 8, "8 are left"),
        ([1, 3], 12, b"\0" * 16, "4 bytes are left"),
        ([1, 3], 8, b"\0" * 8, "takes 12 bytes, got 8"),
        ([2, 3], 12, b"\0" * 12, "takes 24 bytes, got 12"),
        ([1, 3], 10**19, b"\0" * 12, "left"),
    ],
)
def test_sizes_that_do_not_add_up(shape, said, blob, words):
    value = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": said}}]}
    body, size = framed(value, blob)
    with pytest.raises(SizeMismatch, match="x|left") as caught:
        v2.read_request(body, size, ONE)
    assert words in str(caught.value)


def test_binary_sizes_must_be_whole_numbers_and_exclude_data():
    for said in (-12, "12", 1.5, True):
        value = {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": said}}]
        }
        body, size = framed(value, b"\0" * 12)
        with pytest.raises(MalformedBody, match="binary_data_size"):
            v2.read_request(body, size, ONE)
    value = document()
    value["inputs"][0]["parameters"] = {"binary_data_size": 12}
    body, size = framed(value, b"\0" * 12)
    with pytest.raises(MalformedBody, match="both"):
        v2.read_request(body, size, ONE)


def test_binary_bools_and_strings_are_checked():
    flags = Signature([spec("f", BOOL, (None,))], [])
    value = {"inputs": [{"name": "f", "datatype": "BOOL", "shape": [2], "parameters": {"binary_data_size": 2}}]}
    body, size = framed(value, b"\1\2")
    with pytest.raises(InvalidValue, match="0 or 1"):
        v2.read_request(body, size, flags)
    texts = Signature([spec("s", BYTES, (None,))], [])
    value = {"inputs": [{"name": "s", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}}]}
    body, size = framed(value, struct.pack("<I", 2) + b"\xc3\x28")
    with pytest.raises(InvalidValue, match="element 0: byte 0"):
        v2.read_request(body, size, texts)
    for blob in (b"\1\0\0", struct.pack("<I", 9) + b"ab", struct.pack("<II", 0, 0)[:6]):
        value["inputs"][0]["parameters"]["binary_data_size"] = len(blob)
        body, size = framed(value, blob)
        with pytest.raises(SizeMismatch):
            v2.read_request(body, size, texts)


def test_raw_requests():
    request = v2.read_request(struct.pack("<6f", *range(6)), "0", ONE)
    assert request.feeds["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [wanted.binary for wanted in request.wanted] == [True]
    with pytest.raises(SizeMismatch, match="no multiple"):
        v2.read_request(b"\0" * 13, "0", ONE)
    with pytest.raises(InvalidRequest, match="exactly one input"):
        v2.read_request(b"\0" * 12, "0", TWO)
    text = Signature([spec("s", BYTES, (1,))], [])
    assert v2.read_request("日本".encode(), "0", text).feeds["s"].tolist() == ["日本"]
    free = Signature([spec("i", FP32, ("n", "h", "w"))], [])
    with pytest.raises(ShapeMismatch, match="several free"):
        v2.read_request(b"\0" * 16, "0", free)


def answer(request, *tensors, signature=ONE):
    text, blobs = v2_answer.write_answer("m", "1", request, list(tensors), signature)
    size = None if blobs is None else len(text)
    return SimpleNamespace(data=b"".join((text, *(blobs or ()))), json_size=size, blobs=blobs)


@pytest.mark.parametrize(("count", "copied"), [(4, True), (100_000, False)])
def test_a_large_tensor_leaves_from_where_it_lies(count, copied):
    values = np.arange(count, dtype=np.float32)
    body = answer(read(document(parameters={"binary_data_output": True})), Tensor(X, values))
    (blob,) = body.blobs
    assert bytes(blob) == values.tobytes()
    values[1] = 7
    assert (bytes(blob) != values.tobytes()) is copied


def test_json_answers_are_flat_and_exact():
    values = np.array([[0.1, 1e-45, -0.0]], np.float32)
    body = answer(read(document(id="9")), Tensor(X, values))
    got = orjson.loads(body.data)
    assert got["model_name"] == "m"
    assert got["model_version"] == "1"
    assert got["id"] == "9"
    assert got["outputs"][0]["shape"] == [1, 3]
    assert np.array(got["outputs"][0]["data"], np.float32).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("policy", "text"),
    [("null", b"[null,null,1.5]"), ("string", b'["NaN","-Infinity",1.5]'), ("token", b"[NaN,-Infinity,1.5]")],
)
def test_what_is_not_finite_is_written_as_asked(policy, text):
    request = read(document(parameters={"nan": policy}))
    body = answer(request, Tensor(X, np.array([np.nan, -np.inf, 1.5], np.float32)))
    assert b'"data":' + text in body.data


def test_the_error_policy():
    request = read(document(parameters={"nan": "error"}))
    with pytest.raises(InvalidRequest, match="NaN"):
        answer(request, Tensor(X, np.array([np.nan], np.float32)))
    assert answer(request, Tensor(X, np.array([1.0], np.float32)))


def test_half_and_bf16_widen_in_json_and_stay_bits_in_binary():
    half, brain = spec("h", FP16, (None,)), spec("b", BF16, (None,))
    tensors = [
        Tensor(half, np.array([1.5, 65504], np.float16)),
        Tensor(brain, np.array([0x3FC0, 0x7F80], np.uint16)),
    ]
    signature = Signature([X], [half, brain])
    got = orjson.loads(answer(read(document(), signature), *tensors, signature=signature).data)
    assert [output["data"] for output in got["outputs"]] == [[1.5, 65504.0], [1.5, None]]
    request = read(document(parameters={"binary_data_output": True}), signature)
    body = answer(request, *tensors, signature=signature)
    assert body.data[body.json_size :] == tensors[0].array.tobytes() + tensors[1].array.tobytes()


def test_a_flag_of_an_output_wins_over_the_request():
    request = read(
        document(
            parameters={"binary_data_output": True},
            outputs=[{"name": "y", "parameters": {"binary_data": False}}],
        )
    )
    assert request.wanted[0].binary is False
    assert answer(request, Tensor(X, np.zeros((1, 3), np.float32))).json_size is None


def test_strings_in_both_forms():
    text = spec("q", BYTES, (None,))
    signature = Signature([X], [text])
    tensor = Tensor(text, np.array(["é", ""], object))
    got = orjson.loads(answer(read(document(), signature), tensor, signature=signature).data)
    assert got["outputs"][0]["data"] == ["é", ""]
    body = answer(read(document(parameters={"binary_data_output": True}), signature), tensor, signature=signature)
    assert body.data[body.json_size :] == b"\2\0\0\0" + "é".encode() + b"\0\0\0\0"
    assert orjson.loads(body.data[: body.json_size])["outputs"][0]["parameters"] == {"binary_data_size": 10}


def test_classification_gives_the_best_with_labels():
    request = read(document(outputs=[{"name": "y", "parameters": {"classification": 2}}]))
    signature = Signature([X], [spec("y", FP32, ("batch", 3))], labels={"y": ("cat", "dog")})
    tensor = Tensor(signature.outputs[0], np.array([[0.5, 0.25, 0.75], [1, 1, 0]], np.float32))
    got = orjson.loads(answer(request, tensor, signature=signature).data)["outputs"][0]
    assert (got["datatype"], got["shape"]) == ("BYTES", [2, 2])
    assert got["data"] == ["0.750000:2", "0.500000:0:cat", "1.000000:0:cat", "1.000000:1:dog"]


def test_an_output_the_protocol_cannot_carry():
    signature = Signature([X], [spec("y", FP32, (None,)), spec("e", None, (None,))])
    with pytest.raises(NotOffered, match="output 'e' has the type tensor\\(float8e4m3fn\\)"):
        read(document(), signature)
    assert read(document(outputs=[{"name": "y"}]), signature).outputs == ("y",)
    with pytest.raises(NotOffered, match="input 'e'"):
        read(
            {"inputs": [{"name": "e", "datatype": "FP8", "shape": [1], "data": [1]}]},
            Signature([spec("e", None, (1,))], []),
        )
