"""Requests of TensorFlow Serving's REST API: rows under `instances`, or columns under `inputs`.

Source: tensorflow_serving/g3doc/api_rest.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from service.errors import InvalidRequest, MalformedBody, MissingTensor, ServiceError, ShapeMismatch, UnknownTensor
from service.tensors import Array, TensorSpec
from service.wire import image_tensors, json_numbers
from service.wire.elements import convert, read_elements, shown
from service.wire.json_numbers import Numbers
from service.wire.json_text import read_json
from service.wire.nesting import Place, infer_shape
from service.wire.signature import Signature, check_shape, listed


class V1Request(NamedTuple):
    """A request that fits its model.

    Attributes:
        feeds: array by input name.
        outputs: names of the outputs to compute: all.
        rows: whether it came as rows, and is answered so; their number, or None for columns.
    """

    feeds: dict[str, Array]
    outputs: tuple[str, ...]
    rows: int | None


def read_request(body: bytes | bytearray, signature: Signature) -> V1Request:
    """Reads a `:predict` body.

    Raises:
        InvalidRequest: whatever doesn't fit, with its place.
    """
    large = _read_large(body, signature)
    return large if large is not None else _read_document(read_json(body), signature)


def _read_large(body: bytes | bytearray, signature: Signature) -> V1Request | None:
    """The request if its long lists are plainly right; None leaves it to the thorough reader."""
    try:
        found = json_numbers.cut(body, signature.fast_json_bytes)
        if found is None:
            return None
        document, lists = found
        request = _read_document(document, signature)
    except (json_numbers.Unsure, ServiceError):
        return None
    return request if all(numbers.taken for numbers in lists) else None


def _read_document(document: Any, signature: Signature) -> V1Request:
    if document.__class__ is not dict:
        raise MalformedBody(f"expected a JSON object with 'instances' or 'inputs', got {shown(document)}", pointer="")
    if ("instances" in document) == ("inputs" in document):
        both = "both" if "instances" in document else "neither"
        raise MalformedBody(f"expected either 'instances' (rows) or 'inputs' (columns), got {both}", pointer="")
    signature.check_served(signature.output_names)
    if "inputs" in document:
        return V1Request(_columns(document["inputs"], signature), signature.output_names, None)
    instances = document["instances"]
    if instances.__class__ is Numbers:
        feeds = _rows_of_numbers(instances, signature)
        return V1Request(feeds, signature.output_names, instances.shape()[0])
    if instances.__class__ is not list:
        raise MalformedBody(f"expected a list of rows under 'instances', got {shown(instances)}", pointer="/instances")
    return V1Request(_rows(instances, signature), signature.output_names, len(instances))


def _columns(inputs: Any, signature: Signature) -> dict[str, Array]:
    if inputs.__class__ is not dict or _is_b64(inputs, signature):
        name = _only_input(signature, "/inputs")
        return {name: _tensor(inputs, signature, name, "/inputs")}
    feeds = {name: _tensor(value, signature, name, f"/inputs/{name}") for name, value in inputs.items()}
    signature.check_complete(feeds, "/inputs")
    return feeds


def _rows(instances: list[Any], signature: Signature) -> dict[str, Array]:
    if not instances or not _are_objects(instances, signature):
        name = _only_input(signature, "/instances")
        return {name: _tensor(instances, signature, name, "/instances")}
    first = instances[0]
    if first.__class__ is not dict:
        _unlike_rows(first, first, 0, signature)
    columns: dict[str, list[Any]] = {name: [] for name in first}
    for index, row in enumerate(instances):
        if row.__class__ is not dict or row.keys() != first.keys():
            _unlike_rows(row, first, index, signature)
        for name, value in row.items():
            columns[name].append(value)
    feeds = {name: _tensor(values, signature, name, f"/instances/*/{name}") for name, values in columns.items()}
    signature.check_complete(feeds, "/instances/0")
    return feeds


def _rows_of_numbers(instances: Numbers, signature: Signature) -> dict[str, Array]:
    name = _only_input(signature, "/instances")
    return {name: _tensor(instances, signature, name, "/instances")}


def _are_objects(instances: list[Any], signature: Signature) -> bool:
    """Whether rows are objects keyed by input name; `{"b64": …}` is a value unless an input has that name."""
    return any(row.__class__ is dict and not _is_b64(row, signature) for row in instances)


def _is_b64(value: dict[str, Any], signature: Signature) -> bool:
    return value.keys() == {"b64"} and "b64" not in signature.input_by_name


def _unlike_rows(row: Any, first: Any, index: int, signature: Signature) -> None:
    pointer = f"/instances/{index}"
    if row.__class__ is not dict or first.__class__ is not dict:
        raise MalformedBody(
            f"row {index}: expected an object with the inputs {listed(signature.required)} as the other rows, got "
            f"{shown(row)}",
            pointer=pointer,
        )
    for name in row:
        signature.input(name, f"{pointer}/{name}")
    for name in signature.required:
        if name not in first:
            raise MissingTensor(f"row 0: input '{name}' is missing", pointer="/instances/0")
    for name in (*signature.required, *first):
        if name not in row:
            raise MissingTensor(f"row {index}: input '{name}' is missing", pointer=pointer)
    extra = next(name for name in row if name not in first)
    raise UnknownTensor(f"row {index}: input '{extra}' is not in row 0", pointer=f"{pointer}/{extra}")


def _only_input(signature: Signature, pointer: str) -> str:
    if len(signature.required) == 1:
        return signature.required[0]
    if not signature.required and len(signature.inputs) == 1:
        return signature.inputs[0].name
    raise InvalidRequest(
        f"the model has the inputs {listed(tuple(signature.input_by_name))}: name them, as an object "
        'under "inputs" or one object for each row under "instances"',
        pointer=pointer,
    )


def _tensor(value: Any, signature: Signature, name: str, pointer: str) -> Array:
    spec = signature.input(name, pointer)
    place = Place(name, pointer)
    if value.__class__ is Numbers:
        shape = value.shape()
        check_shape(spec, shape, pointer)
        return read_elements(value, shape, spec.datatype, place)  # type: ignore[arg-type] # input() refuses None
    image = signature.images.get(name)
    if image is not None and _holds_images(value):
        items = value if isinstance(value, list) else [value]
        images = [image_tensors.image_bytes(item, index, place) for index, item in enumerate(items)]
        return image_tensors.read(images, image, spec)
    flat, shape = _elements(value, spec, place)
    check_shape(spec, shape, pointer)
    return convert(flat, spec.datatype, place).reshape(shape)  # type: ignore[arg-type] # input() refuses None


def _elements(value: Any, spec: TensorSpec, place: Place) -> tuple[list[Any], tuple[int, ...]]:
    flat, shape = infer_shape(value, place)
    if not flat and spec.shape is not None and len(shape) < len(spec.shape):
        # An empty list says nothing of the dimensions below it: zero rows of what the model declares.
        rest = spec.shape[len(shape) :]
        if shape and any(not isinstance(dim, int) for dim in rest) and 0 not in shape:
            raise ShapeMismatch(f"input '{spec.name}': the data is empty", pointer=place.pointer)
        shape = (*shape, *(dim if isinstance(dim, int) else 0 for dim in rest))
    return flat, shape


def _holds_images(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str | dict)
