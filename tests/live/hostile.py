"""Requests that no service should answer with success, in families; each with the status and the place it must name."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import NamedTuple

V2 = "/v2/models/{}/infer"
V1 = "/v1/models/{}:predict"
X = V2.format("36-requested-outputs")
GOOD = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, -2, 3]}]}
LIMIT_BYTES = 4 * 1024 * 1024
"""The service is asked to take no larger body, so that a bomb costs the test nothing."""


class Hostile(NamedTuple):
    """One request.

    Attributes:
        label: what is wrong with it.
        path: of the request, as it goes over the wire.
        body: of the request.
        status: of the answer.
        place: what the error's sentence or its pointer has to hold, a regular expression.
        headers: of the request.
        method: of the request.
    """

    label: str
    path: str
    body: bytes
    status: int
    place: str
    headers: dict[str, str] = {}  # noqa: RUF012 # a NamedTuple's default, never changed
    method: str = "POST"


def raw(document):
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def v2(label, document, place, status=400, model="36-requested-outputs", **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Hostile(label, V2.format(model), raw(document), status, place, names)


def v1(label, document, place, status=400, model="36-requested-outputs", **headers):
    return v2(label, document, place, status, model, **headers)._replace(path=V1.format(model))


def one_input(**members):
    """The good request with members of its input replaced; None takes one away."""
    tensor = {**GOOD["inputs"][0], **members}
    return {"inputs": [{name: value for name, value in tensor.items() if value is not None}]}


def tensor(model_input, datatype, shape, data):
    return {"inputs": [{"name": model_input, "datatype": datatype, "shape": shape, "data": data}]}


def truncated():
    for path, document in ((X, GOOD), (V1.format("36-requested-outputs"), {"instances": [[1, 2, 3]]})):
        text = raw(document)
        for size in range(0, len(text) - 1, 3):
            yield Hostile(f"{path} cut at {size}", path, text[:size], 400, "JSON")
    yield v2("junk behind", raw(GOOD) + b"}", "at character")
    yield v2("two documents", raw(GOOD) * 2, "at character")
    yield v2("zeros", b"\0" * 64, "at character 0")


WRONG_MEMBERS = {
    "name": (1, [], {}, True, None),
    "datatype": (1, [], "fp32", "FLOAT", "INT64", "BYTES", "", "FP32 ", None),
    "shape": ([-1, 3], [1.5, 3], ["1", 3], "1,3", {}, 3, [True, 3], [None, 3], [[1, 3]], [1, 3.0], None),
    "data": (
        "abc",
        {},
        1,
        True,
        [1, 2],
        [1, 2, 3, 4],
        [[1, 2], [3]],
        [[1, 2, 3], [4, 5, 6]],
        [1, [2, 3]],
        [[[1]]],
        None,
    ),
}


def wrong_tensors():
    for value in ([], "", 1, True, None):
        yield v2(f"document {value!r}", value, "object")
    for value in ({}, "x", 1, None, False):
        yield v2(f"inputs {value!r}", {"inputs": value}, "/inputs")
    for value in (1, "x", None, [], [[]], True):
        yield v2(f"input {value!r}", {"inputs": [value]}, "/inputs/0")
    for member, wrong in WRONG_MEMBERS.items():
        for value in wrong:
            yield v2(f"{member} {value!r}", one_input(**{member: value}), f"/inputs/0/{member}")
    for value in ("1.5", True, {}, {"b64": "AA=="}, "", "nan", "inf", 1e39):
        yield v2(f"element {value!r}", one_input(data=[1, value, 2]), "/inputs/0/data")


def wrong_wishes():
    for value in ([], "x", 1, True):
        yield v2(f"parameters {value!r}", {**GOOD, "parameters": value}, "/parameters")
    for value in ([], {}, [[1]]):
        yield v2(f"parameter {value!r}", {**GOOD, "parameters": {"mine": value}}, "/parameters/mine")
    for value in ("x", 1, {}, [1], ["pos"], [{}], [{"name": 1}], [{"name": "nope"}], [{"name": "pos"}] * 2):
        yield v2(f"outputs {value!r}", {**GOOD, "outputs": value}, "/outputs")
    for name, value in (("binary_data", 1), ("classification", -1), ("classification", "x"), ("classification", True)):
        outputs = [{"name": "pos", "parameters": {name: value}}]
        yield v2(f"output's {name} {value!r}", {**GOOD, "outputs": outputs}, f"/outputs/0/parameters/{name}")
    for name, value in (("nan", "zero"), ("nan", 1), ("binary_data_output", "yes")):
        yield v2(f"{name} {value!r}", {**GOOD, "parameters": {name: value}}, f"/parameters/{name}")
    yield v2("id 5", {**GOOD, "id": 5}, "/id")


def names():
    yield v2("no input", {"inputs": []}, "'x'")
    yield v2("unknown input", one_input(name="y"), "/inputs/0/name")
    yield v2("input twice", {"inputs": GOOD["inputs"] * 2}, "/inputs/1/name")
    two = {"name": "a", "datatype": "FP32", "shape": [1], "data": [1]}
    yield v2("one of two", {"inputs": [two]}, "'b'", model="35-missing-unknown-duplicate-input")
    yield v2("input for a model without", GOOD, "/inputs/0/name", model="34-model-without-inputs")


def values():
    for datatype, model, name, bad in (
        ("UINT8", "08-uint8-out-of-range", "pix", (256, -1, 1.5, 1e30, 2**64, "1", None, True, "NaN")),
        ("BOOL", "11-bool-tensor", "flag", (2, -1, "true", None, 0.5, [])),
        ("FP16", "03-fp16-json-and-binary", "h", (65520, -1e5, "x")),
        ("FP64", "16-fp64-kept-double", "x", ("x", {}, False)),
        ("BYTES", "12-strings-utf8-empty-nul", "s", (1, None, True, {}, {"b64": 1}, {"base64": "AA=="})),
    ):
        for value in bad:
            yield v2(f"{datatype} {value!r}", tensor(name, datatype, [1], [value]), "/inputs/0/data", model=model)
    for value in (2**31, -(2**31) - 1, 2**63, 0.5):
        document = tensor("ids", "INT32", [1, 1], [value])
        yield v2(f"INT32 {value!r}", document, "/inputs/0/data", model="07-int32-model-int64-request")
    for value in (
        b"1e400",
        b"-1e999",
        b"1" * 400,
        b"NaN",
        b"[NaN]",
        b"0x10",
        b"1_0",
        b"+1",
        b".5",
        b"01",
        b"1,",
        b"'a'",
    ):
        text = b'{"inputs":[{"name":"pix","datatype":"UINT8","shape":[1],"data":[%b]}]}' % value
        yield v2(f"number {value[:8]!r}", text, r"character 6[45]|'pix'", model="08-uint8-out-of-range")


def huge_shapes():
    model = "27-symbolic-dims-in-metadata"
    for shape in ([2**31, 1], [2**40, 2**40], [2**63, 1], [10**30, 1], [1, 2**62], [3, 2**32 + 1]):
        yield v2(f"shape {shape}", tensor("tokens", "INT64", shape, [1, 2, 3]), "/inputs/0", model=model)
        yield v2(f"shape {shape}, no data", tensor("tokens", "INT64", shape, []), "/inputs/0", model=model)
    for shape in ([0, 2**63], [2**70, 0], [0, 2**62]):
        yield v2(f"no elements in {shape}", tensor("tokens", "INT64", shape, []), "/inputs/0", model=model)
    for rank in (0, 1, 3, 100, 10_000):
        yield v2(f"rank {rank}", one_input(shape=[1] * rank, data=[1]), "/inputs/0/shape")
    fixed = tensor("img", "FP32", [2, 3, 2, 2], [0] * 24)
    yield v2("batch of two", fixed, "/inputs/0/shape", model="25-fixed-batch-of-one")


def deep_nesting():
    deep = "deeper than 100 levels|depth limit exceeded at character"
    for depth in (101, 1000, 100_000):
        nested = b"[" * depth + b"]" * depth
        yield v2(f"data {depth} deep", b'{"inputs":[{"name":"x","data":%b}]}' % nested, deep)
        yield v2(f"list {depth} deep", nested, deep)
        yield v2(f"list {depth} deep, open", nested[:depth], "JSON")
        yield v2(f"objects {depth} deep", b'{"a":' * depth + b"1" + b"}" * depth, deep)
        yield v1(f"instances {depth} deep", b'{"instances":%b}' % nested, deep)


def bad_text():
    wrong = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80", b"\xfe\xff\x00{")
    for text in wrong:
        yield v2(f"name {text!r}", b'{"inputs":[{"name":"%b"}]}' % text, "UTF-8")
        body = b'{"inputs":[{"name":"s","datatype":"BYTES","shape":[1],"data":["%b"]}]}' % text
        yield v2(f"string {text!r}", body, "UTF-8", model="12-strings-utf8-empty-nul")
    for encoding in ("utf-16", "utf-32", "utf-16-be"):
        yield v2(encoding, json.dumps(GOOD).encode(encoding), "UTF-8")
    for text in (rb"\ud800", rb"\udc00x", rb"\x41", rb"\u12", b"\n"):
        body = b'{"inputs":[{"name":"s","datatype":"BYTES","shape":[1],"data":["%b"]}]}' % text
        yield v2(f"escape {text!r}", body, "at character 63", model="12-strings-utf8-empty-nul")
    for data in (b"\xff", b"\xed\xa0\x80", b"a\xc3"):
        blob = struct.pack("<I", len(data)) + data
        yield binary(f"bytes {data!r}", blob, "element 0", tensor="s", datatype="BYTES", shape=[1])


def bad_base64():
    for text in ("!!!", "A", "AA", "AA=", "AAAA=", "====", "AA==AA==", "AA\n==", "A-_A", "é", "/w=="):
        row = tensor("s", "BYTES", [1], [{"b64": text}])
        yield v2(f"v2 {text!r}", row, "/inputs/0/data", model="12-strings-utf8-empty-nul")
        yield v1(f"v1 {text!r}", {"instances": [{"b64": text}]}, "/instances", model="84-v1-base64-strings")


def compressed():
    good = raw(GOOD)
    bomb = gzip.compress(b" " * (4 * LIMIT_BYTES))
    for encoding, body in (
        ("gzip", bomb),
        ("gzip, gzip", gzip.compress(bomb)),
        ("deflate", zlib.compress(b"[" * (4 * LIMIT_BYTES))),
        ("x-gzip", gzip.compress(good) + bomb),
    ):
        yield v2(f"{encoding} bomb", body, str(LIMIT_BYTES), 413, Content_Encoding=encoding)
    whole = gzip.compress(good)
    for body in (b"", b"\x1f\x8b", whole[:20], whole[:-1], whole[:-8] + b"\0" * 8, good, whole + b"junk", b"\0" * 40):
        yield v2(f"gzip {body[-12:]!r}", body, "gzip", Content_Encoding="gzip")
    for body in (zlib.compress(good)[:-3], zlib.compress(good) + b"x", good, b"\x78\x9c"):
        yield v2(f"deflate {body[-12:]!r}", body, "deflate", Content_Encoding="deflate")
    for encoding in ("br", "zstd", "gzip;q=1", "aes128gcm", "gzip, br", "identity, gzip, gzip, gzip, gzip"):
        yield v2(f"Content-Encoding {encoding}", whole, "Content-Encoding", 415, Content_Encoding=encoding)


def content_types():
    form = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'
    yield v2("form", form, "multipart", 415, Content_Type="multipart/form-data; boundary=x")
    yield v1("mixed", form, "multipart", 415, Content_Type="multipart/mixed; boundary=x")
    for kind in ("image/png", "image/jpeg"):
        yield v2(kind, b"\x89PNG\r\n\x1a\n", "image", 415, Content_Type=kind)
    for text, place in (
        (b"1,2,x", "line 1, value 3"),
        (b"1,2,3\n4,5", "line 2"),
        (b"", "empty"),
        (b"1,2", "expected shape"),
        (b'"1,2,3', "line 1"),
        (b"1,2,1e39", "line 1, value 3"),
        (b"1;2;3", "line 1, value 1"),
        (b"\xff,1,2", "UTF-8"),
    ):
        yield v1(f"csv {text!r}", text, place, Content_Type="text/csv")
    for kind in ("application/x-www-form-urlencoded", "text/xml", "application/x-protobuf", "nonsense", ""):
        yield v2(f"a form as {kind!r}", b"inputs=1", "JSON", Content_Type=kind)


def binary(label, blob, place, *, size=None, json_size=None, tensor="x", datatype="FP32", shape=(1, 3), **members):
    models = {
        "x": "36-requested-outputs", "s": "12-strings-utf8-empty-nul", "flag": "11-bool-tensor",
        "tokens": "27-symbolic-dims-in-metadata",
    }  # fmt: skip
    parameters = {"binary_data_size": len(blob) if size is None else size}
    entry = {"name": tensor, "datatype": datatype, "shape": shape, "parameters": parameters, **members}
    text = raw({"inputs": [entry]})
    header = str(len(text)) if json_size is None else json_size
    return v2(label, text + blob, place, model=models[tensor], Inference_Header_Content_Length=header)


def binary_framing():
    row = struct.pack("<3f", 1, 2, 3)
    for header in ("-1", "abc", "1e3", "0x10", "99999999", "1.0", "1 2", "9" * 40, "+5", ""):
        yield binary(f"header {header!r}", row, "Inference-Header-Content-Length", json_size=header)
    for size in ("1", "100"):
        yield binary(f"header {size} too short", row, "at character", json_size=size)
    for size in (0, 11, 13, 2**31, 2**70):
        yield binary(f"says {size}", row, "input 'x'", size=size)
    for size in (-1, 12.0, "12", True, [], {}):
        yield binary(f"says {size!r}", row, "/inputs/0/parameters", size=size)
    for blob in (b"", row[:-1], row + b"\0", row * 2):
        yield binary(f"{len(blob)} bytes for 12", blob, "12 bytes")
    yield binary("leftover", row + b"more", "4 bytes are left", size=12)
    yield binary("both", row, "/inputs/0", data=[1, 2, 3])
    yield v2("no header", one_input(data=None, parameters={"binary_data_size": 12}), "Inference-Header-Content-Length")
    yield binary("data as JSON", b"", "/inputs/0/parameters/binary_data_size", parameters={"binary_data_size": 5})
    for blob in (b"\1\0", b"\5\0\0\0abc", b"\xff\xff\xff\xff", b"\1\0\0\0ab", b"", b"\1\0\0\0a" * 2):
        yield binary(f"elements {blob!r}", blob, "/inputs/0", tensor="s", datatype="BYTES", shape=[1])
    yield binary("BOOL 2", b"\1\2", "0 or 1", tensor="flag", datatype="BOOL", shape=[2])
    for shape in ([2**40, 2**40], [0, 2**62], [2**63, 0]):
        yield binary(f"shape {shape}", b"", "/inputs/0", tensor="tokens", datatype="INT64", shape=shape)
    for model, body, place in (
        ("35-missing-unknown-duplicate-input", row, "exactly one input"),
        ("36-requested-outputs", row[:-1], "11 bytes"),
        ("29-uint8-image-dynamic-size", row, "free dimensions"),
    ):
        yield v2(f"raw to {model}", body, place, model=model, Inference_Header_Content_Length="0")


def rows():
    yield v1("both", {"instances": [[1, 2, 3]], "inputs": [[1, 2, 3]]}, "both")
    yield v1("neither", {"signature_name": "x"}, "neither")
    for value in ("x", 1, {}, None):
        yield v1(f"instances {value!r}", {"instances": value}, "/instances")
    for value in ([1, 2, 3], [[1, 2]], [[1, 2, 3], [4, 5]], [[1, 2, 3], 4], [[[1, 2, 3]]], [["a", 1, 2]], [{"y": 1}]):
        yield v1(f"instances {value!r}", {"instances": value}, "/instances")
    for value in (1, "x", [[1, 2]], {"y": [[1, 2, 3]]}, {"x": 1}, {}):
        yield v1(f"inputs {value!r}", {"inputs": value}, "/inputs")
    model = "80-v1-rows-named-inputs"
    row = {"a": [1, 2], "b": [3]}
    for value in ([[1, 2]], [{"a": [1, 2]}], [row, {"a": [1, 2]}], [row, [1]], [row, {**row, "c": 1}], [row, None]):
        yield v1(f"named {value!r}", {"instances": value}, "/instances", model=model)
    ragged = {"instances": [[1, 2], [3]]}
    yield v1("ragged", ragged, "/instances", model="82-v1-ragged-instances")


def routes():
    def ask(path, status, place, method="GET"):
        return Hostile(f"{method} {path[:60]}", path, b"", status, place, method=method)

    for path in (X, V1.format("36-requested-outputs"), "/v2/repository/index", "/invocations", "/predict/x"):
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            yield ask(path, 405, "POST", method)
    for path in ("/v2", "/v2/health/live", "/v2/models/36-requested-outputs", "/v1/models", "/metrics"):
        yield ask(path, 405, "GET", "POST")
    for name in ("nope", "..%2f..%2fetc%2fpasswd", "%2e%2e", "%00", "%ff%fe", "a" * 4000, "%F0%9F%98%80", "x%0d%0ay"):
        yield ask(f"/v2/models/{name}", 404, "model|route")
        yield ask(V2.format(name), 404, "model|route", "POST")
        yield ask(V1.format(name), 404, "model|route", "POST")
    for version in ("2", "0", "-1", "abc", "9" * 30, "1.0", "%31%30"):
        yield ask(f"/v2/models/36-requested-outputs/versions/{version}", 404, "version")
        yield ask(f"/v2/models/36-requested-outputs/versions/{version}/infer", 404, "version", "POST")
    for path in ("/nope", "/v3", "/v2/nope", "/v2/models/a/b/c/d", "/v2//models", "/..%2f", "/%2e%2e/%2e%2e"):
        yield ask(path, 404, "route")


FAMILIES = {
    family.__name__: list(family())
    for family in (
        truncated, wrong_tensors, wrong_wishes, names, values, huge_shapes, deep_nesting, bad_text, bad_base64,
        compressed, content_types, binary_framing, rows, routes,
    )
}  # fmt: skip
