"""The Open Inference Protocol from a client's side, written from the specification and not from the service."""

from __future__ import annotations

import json
import math
import struct
from urllib.parse import quote

import ml_dtypes
import numpy as np

# ONNX Runtime's element types, the protocol's names of them and numpy's; what isn't here the protocol can't carry.
TYPES = {
    "bool": ("BOOL", np.dtype("?")), "uint8": ("UINT8", np.dtype("<u1")), "uint16": ("UINT16", np.dtype("<u2")),
    "uint32": ("UINT32", np.dtype("<u4")), "uint64": ("UINT64", np.dtype("<u8")), "int8": ("INT8", np.dtype("<i1")),
    "int16": ("INT16", np.dtype("<i2")), "int32": ("INT32", np.dtype("<i4")), "int64": ("INT64", np.dtype("<i8")),
    "float16": ("FP16", np.dtype("<f2")), "bfloat16": ("BF16", np.dtype(ml_dtypes.bfloat16)),
    "float": ("FP32", np.dtype("<f4")), "double": ("FP64", np.dtype("<f8")), "string": ("BYTES", np.dtype(object)),
}  # fmt: skip
DTYPES = dict(TYPES.values())
DATATYPES = {f"tensor({onnx_name})": datatype for onnx_name, (datatype, _) in TYPES.items()}
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def request(exam, inputs, form):
    """Body and headers of an inference."""
    tensors, blobs = [], []
    for (name, datatype), array in zip(exam.inputs, inputs, strict=False):
        tensor = {"name": name, "datatype": datatype, "shape": array.shape}
        if form == "binary":
            blobs.append(to_bytes(array))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            tensor["data"] = to_json(array)
        tensors.append(tensor)
    parameters = {"nan": "string", "binary_data_output": form == "binary"}
    text = json.dumps({"inputs": tensors, "parameters": parameters}, allow_nan=False).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if blobs else {}
    return b"".join([text, *blobs]), headers


def to_json(array):
    values = (array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array).ravel().tolist()
    return [json.dumps(v) if isinstance(v, float) and not math.isfinite(v) else v for v in values]


def to_bytes(array):
    if array.dtype.kind != "O":
        return array.tobytes()
    texts = [text.encode() for text in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def answer(exam, body, json_size, form):
    """Arrays of an answer; every output has to have come in the model's order, with its type, in the form asked for."""
    text, blobs = (body, b"") if json_size is None else (body[: int(json_size)], body[int(json_size) :])
    outputs = json.loads(text)["outputs"]
    assert [(output["name"], output["datatype"]) for output in outputs] == list(exam.outputs)
    arrays = []
    for output in outputs:
        dtype, is_binary = DTYPES[output["datatype"]], form == "binary"
        assert ("data" in output) != is_binary
        size = output["parameters"]["binary_data_size"] if is_binary else 0
        raw, blobs = blobs[:size], blobs[size:]
        values = from_bytes(raw, dtype) if is_binary else from_json(output["data"], dtype)
        arrays.append(values.reshape(output["shape"]))
    assert not blobs
    return arrays


def from_json(data, dtype):
    if dtype.kind in "fV":  # V: numpy's word for BF16
        data = [WORDS[value] if isinstance(value, str) else value for value in data]
    elif dtype.kind != "O":
        wanted = bool if dtype.kind == "b" else int
        assert all(type(value) is wanted for value in data)
    return np.array(data, dtype)


def from_bytes(raw, dtype):
    if dtype.kind != "O":
        return np.frombuffer(raw, dtype)
    texts = []
    while raw:
        (size,) = struct.unpack_from("<I", raw)
        texts.append(raw[4 : 4 + size].decode())
        raw = raw[4 + size :]
    return np.array(texts, object)


def asker(connection, form):
    """How an exam's inputs become answers over HTTP."""

    def ask(exam, inputs):
        body, headers = request(exam, inputs, form)
        connection.request("POST", f"/v2/models/{quote(exam.case.name, safe='')}/infer", body, headers)
        response = connection.getresponse()
        data = response.read()
        assert response.status == 200, f"{response.status} {data[:300]!r}"
        return answer(exam, data, response.headers["Inference-Header-Content-Length"], form)

    return ask
