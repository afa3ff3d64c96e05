"""Images inside a request as the array of an input that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.errors import InvalidValue, ShapeMismatch
from service.tensors import Array, TensorSpec, element_count
from service.wire.elements import read_base64, shown
from service.wire.images import ImageInput, decode
from service.wire.nesting import Place, flatten
from service.wire.signature import check_shape


def from_json(data: Any, shape: tuple[int, ...], place: Place) -> list[bytes]:
    """The bytes of `{"b64": …}` elements (or of bare base64 strings), flat or nested as the shape says.

    Raises:
        ShapeMismatch: the number of elements isn't the shape's.
        InvalidValue: an element that is no base64.
    """
    items = data if isinstance(data, list) else [data]
    if any(isinstance(item, list) for item in items) or len(items) != element_count(shape):
        items = flatten(items, shape, place)
    return [image_bytes(item, index, place) for index, item in enumerate(items)]


def image_bytes(item: Any, index: int, place: Place) -> bytes:
    """The bytes of one image in JSON."""
    text = item["b64"] if isinstance(item, dict) and set(item) == {"b64"} else item
    if not isinstance(text, str):
        raise InvalidValue(
            f"input '{place.tensor}', element {index}: expected an image as {{\"b64\": …}}, got {shown(item)}",
            pointer=place.pointer,
        )
    return read_base64(text, f"input '{place.tensor}', element {index}", place.pointer)


def read(images: Sequence[bytes], image: ImageInput, spec: TensorSpec) -> Array:
    """Decoded images, stacked along the batch axis where the layout has one.

    Raises:
        ShapeMismatch: no image, several for an input without a batch axis, or sizes that differ.
        MalformedBody, InvalidValue: bytes that are no JPEG or PNG.
    """
    if spec.datatype is None or not images:
        raise ShapeMismatch(f"input '{spec.name}': expected at least one image, got none")
    arrays = [
        decode(data, image, spec.datatype, f"input '{spec.name}', image {index}") for index, data in enumerate(images)
    ]
    if len(arrays) > 1 and not image.layout.startswith("N"):
        raise ShapeMismatch(f"input '{spec.name}' takes one image, got {len(arrays)}")
    if any(array.shape != arrays[0].shape for array in arrays):
        raise ShapeMismatch(
            f"input '{spec.name}': images of one request must have one size, got "
            f"{sorted({str(list(array.shape)) for array in arrays})}"
        )
    stacked = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    check_shape(spec, stacked.shape, "")
    return stacked
