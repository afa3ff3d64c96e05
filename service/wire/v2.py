"""Requests of the Open Inference Protocol: the JSON document, with or without binary tensors behind it.

Source: Open Inference Protocol v2 (REST), binary tensor data extension, classification extension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from service.errors import InvalidRequest, MalformedBody, ServiceError, ShapeMismatch, UnknownTensor
from service.tensors import Array, TensorSpec
from service.wire import binary, image_tensors, json_numbers
from service.wire.elements import check_datatype, read_elements, shown
from service.wire.json_text import check_depth, read_json
from service.wire.nesting import Place
from service.wire.raw_tensor import read_raw
from service.wire.signature import Signature, check_shape
from service.wire.v2_parameters import bad_parameter, binary_size, flag, nan_policy, read_parameters
from service.wire.v2_plain import PlainRequest, read_plain

_MOST_ELEMENTS = 1 << 59
_MOST_DIMENSIONS = 64
"""Elements of 8 bytes that an address space can hold; numpy refuses larger shapes even where a dimension is 0."""


class OutputRequest(NamedTuple):
    """One output as the caller wants it.

    Attributes:
        name: of the output.
        binary: as bytes behind the JSON.
        classes: how many of the best classes instead of the tensor; 0 for the tensor.
    """

    name: str
    binary: bool
    classes: int


class V2Request(NamedTuple):
    """A request that fits its model.

    Attributes:
        id: the caller's, comes back in the answer.
        feeds: array by input name.
        outputs: names of the outputs to compute, in the caller's order.
        wanted: how each is written; None: all as JSON.
        nan: how NaN and infinities are written in JSON.
        parameters: of the request.
    """

    id: str | None
    feeds: dict[str, Array]
    outputs: tuple[str, ...]
    wanted: tuple[OutputRequest, ...] | None
    nan: str
    parameters: Mapping[str, Any]


def read_request(
    body: bytes | bytearray | memoryview, json_size: str | None, signature: Signature
) -> V2Request | PlainRequest:
    """Reads a request.

    Args:
        body: the whole decompressed body.
        json_size: the header `Inference-Header-Content-Length`, None where there is none.
        signature: of the model that is asked.

    Raises:
        InvalidRequest: whatever doesn't fit, with its place.
    """
    if json_size is None:
        if len(body) >= signature.fast_json_bytes and not isinstance(body, memoryview):
            large = _read_large(body, signature)
            if large is not None:
                return large
        return _read_small(bytes(body), signature)
    text, blobs = binary.split(body, json_size)
    if not text:
        return _raw(blobs, signature)
    document = read_json(bytes(text))
    request = _read_document(document, signature, blobs)
    blobs.check_finished()
    return request


def _read_small(body: bytes, signature: Signature) -> V2Request | PlainRequest:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = read_json(body)
    if signature.plain is not None:
        plain = read_plain(document, body, signature.plain)
        if plain is not None:
            return plain
    check_depth(body)
    return _read_document(document, signature, None)


def _read_large(body: bytes | bytearray, signature: Signature) -> V2Request | None:
    """The request if its long lists are plainly right; None leaves it to the thorough reader."""
    try:
        found = json_numbers.cut(body, signature.fast_json_bytes)
        if found is None:
            return None
        document, lists = found
        request = _read_document(document, signature, None)
    except (json_numbers.Unsure, ServiceError):
        return None
    return request if all(numbers.taken for numbers in lists) else None


def _read_document(document: Any, signature: Signature, blobs: binary.Blobs | None) -> V2Request:
    if document.__class__ is not dict:
        raise MalformedBody(
            f"expected a JSON object with 'inputs', got {shown(document)}", pointer="", expected="object"
        )
    inputs = document.get("inputs")
    if inputs.__class__ is not list:
        raise MalformedBody(
            "expected a list of tensors under 'inputs', got "
            f"{shown(inputs) if 'inputs' in document else 'no such member'}",
            pointer="/inputs",
        )
    feeds: dict[str, Array] = {}
    for index, item in enumerate(inputs):
        name, array = _read_input(item, index, signature, blobs)
        if name in feeds:
            raise UnknownTensor(f"input '{name}' is given twice", pointer=f"/inputs/{index}/name")
        feeds[name] = array
    signature.check_complete(feeds, "/inputs")
    identity = document.get("id")
    if identity is not None and identity.__class__ is not str:
        raise InvalidRequest(f"expected a string under 'id', got {shown(identity)}", pointer="/id")
    parameters = read_parameters(document.get("parameters"), "/parameters")
    outputs, wanted = _read_outputs(document.get("outputs"), parameters, signature)
    return V2Request(identity, feeds, outputs, wanted, nan_policy(parameters), parameters)


def _read_input(item: Any, index: int, signature: Signature, blobs: binary.Blobs | None) -> tuple[str, Array]:
    if item.__class__ is not dict:
        raise MalformedBody(f"inputs[{index}]: expected an object, got {shown(item)}", pointer=f"/inputs/{index}")
    name = item.get("name")
    if name.__class__ is not str:
        raise MalformedBody(
            f"inputs[{index}]: expected the tensor's name as a string under 'name', got "
            f"{shown(name) if 'name' in item else 'no such member'}",
            pointer=f"/inputs/{index}/name",
        )
    spec = signature.input(name, f"/inputs/{index}/name")
    size = None
    if "parameters" in item:
        size = binary_size(read_parameters(item["parameters"], f"/inputs/{index}/parameters"), name, index)
    image = signature.images.get(name)
    declared = item.get("datatype")
    if image is not None and declared == "BYTES":
        return name, _read_image(item, index, spec, signature, _blob(blobs, name, index, size))
    check_datatype(name, declared, spec.datatype, f"/inputs/{index}/datatype")  # type: ignore[arg-type] # input() refuses None
    shape = _read_shape(item.get("shape"), name, index)
    check_shape(spec, shape, f"/inputs/{index}/shape")
    if size is None:
        return name, _read_data(item, index, spec, shape)
    _refuse_both(item, name, index)
    return name, binary.read_tensor(_blob(blobs, name, index, size), spec, shape, f"/inputs/{index}")  # type: ignore[arg-type] # a size gives a blob


def _read_data(item: dict[str, Any], index: int, spec: TensorSpec, shape: tuple[int, ...]) -> Array:
    if "data" not in item:
        raise MalformedBody(
            f"input '{spec.name}' has no 'data' (and no 'binary_data_size' among its parameters)",
            pointer=f"/inputs/{index}/data",
        )
    place = Place(spec.name, f"/inputs/{index}/data")
    return read_elements(item["data"], shape, spec.datatype, place)  # type: ignore[arg-type] # input() refuses None


def _read_shape(shape: Any, name: str, index: int) -> tuple[int, ...]:
    if shape.__class__ is list:
        if len(shape) > _MOST_DIMENSIONS:
            raise ShapeMismatch(
                f"input '{name}': no tensor can have {len(shape)} dimensions", pointer=f"/inputs/{index}/shape"
            )
        for length in shape:
            if length.__class__ is not int or length < 0:
                break
        else:
            if shape and math.prod(length or 1 for length in shape) > _MOST_ELEMENTS:
                raise ShapeMismatch(
                    f"input '{name}': no tensor can have the shape {str(shape)[:80]}", pointer=f"/inputs/{index}/shape"
                )
            return tuple(shape)
    raise MalformedBody(
        f"input '{name}': expected a list of whole numbers from 0 on under 'shape', got "
        f"{shape if shape.__class__ is list else shown(shape)!s:.80}",
        pointer=f"/inputs/{index}/shape",
    )


def _blob(blobs: binary.Blobs | None, name: str, index: int, size: int | None) -> memoryview | None:
    if size is None:
        return None
    if blobs is None:
        raise MalformedBody(
            f"input '{name}' has 'binary_data_size', but the header Inference-Header-Content-Length is missing",
            pointer=f"/inputs/{index}/parameters/binary_data_size",
        )
    return blobs.take(size, name, index)


def _refuse_both(item: dict[str, Any], name: str, index: int) -> None:
    if "data" in item:
        raise MalformedBody(
            f"input '{name}' has both 'data' and 'binary_data_size'; send one of them",
            pointer=f"/inputs/{index}",
        )


def _read_image(
    item: dict[str, Any], index: int, spec: TensorSpec, signature: Signature, blob: memoryview | None
) -> Array:
    """Images in a BYTES tensor: base64 in JSON, or length-prefixed behind it."""
    shape = _read_shape(item.get("shape"), spec.name, index)
    image = signature.images[spec.name]
    if blob is not None:
        _refuse_both(item, spec.name, index)
        elements = binary.byte_elements(blob, shape, spec.name, f"/inputs/{index}")
        return image_tensors.read(elements, image, spec)
    data = item.get("data")
    place = Place(spec.name, f"/inputs/{index}/data")
    return image_tensors.read(image_tensors.from_json(data, shape, place), image, spec)


def _read_outputs(
    outputs: Any, parameters: Mapping[str, Any], signature: Signature
) -> tuple[tuple[str, ...], tuple[OutputRequest, ...] | None]:
    everything_binary = flag(parameters.get("binary_data_output", False), "binary_data_output", "/parameters")
    if outputs is None or outputs == []:
        signature.check_served(signature.output_names)
        if not everything_binary:
            return signature.output_names, None
        return signature.output_names, tuple(OutputRequest(name, True, 0) for name in signature.output_names)
    if outputs.__class__ is not list:
        raise MalformedBody(f"expected a list of outputs under 'outputs', got {shown(outputs)}", pointer="/outputs")
    wanted = tuple(
        _read_output(item, f"/outputs/{index}", signature, everything_binary=everything_binary)
        for index, item in enumerate(outputs)
    )
    names = tuple(request.name for request in wanted)
    if len(set(names)) != len(names):
        raise InvalidRequest("an output is asked for twice under 'outputs'", pointer="/outputs")
    signature.check_served(names)
    return names, wanted


def _read_output(item: Any, pointer: str, signature: Signature, *, everything_binary: bool) -> OutputRequest:
    if item.__class__ is not dict or item.get("name").__class__ is not str:
        raise MalformedBody(
            f"expected an object with the output's name as a string under 'name' at {pointer}, got {shown(item)}",
            pointer=pointer,
        )
    signature.output(item["name"], f"{pointer}/name")
    parameters = read_parameters(item.get("parameters"), f"{pointer}/parameters")
    as_bytes = flag(parameters.get("binary_data", everything_binary), "binary_data", f"{pointer}/parameters")
    classes = parameters.get("classification", 0)
    if classes.__class__ is not int or classes < 0:
        bad_parameter("classification", "a whole number from 0 on", classes, f"{pointer}/parameters")
    return OutputRequest(item["name"], as_bytes, classes)


def _raw(blobs: binary.Blobs, signature: Signature) -> V2Request:
    """A body that is one tensor and nothing else (header value 0): every output comes back binary."""
    if len(signature.required) != 1:
        raise InvalidRequest(
            "a raw binary request needs a model with exactly one input without a default; this one has "
            f"{len(signature.required)}: send the JSON header with the tensors"
        )
    spec = signature.input(signature.required[0], "")
    data = blobs.rest()
    array = read_raw(data, spec, signature)
    signature.check_served(signature.output_names)
    wanted = tuple(OutputRequest(name, True, 0) for name in signature.output_names)
    return V2Request(None, {spec.name: array}, signature.output_names, wanted, "null", {})
