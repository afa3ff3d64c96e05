"""A body that is one tensor and nothing else: the raw form of the binary extension."""

from __future__ import annotations

import numpy as np

from service.tensors import BYTES, Array, TensorSpec
from service.wire import binary, image_tensors
from service.wire.signature import Signature, check_shape


def read_raw(data: memoryview, spec: TensorSpec, signature: Signature) -> Array:
    """The array of a raw body: an image, one string, or numbers whose free dimension follows from the size.

    Raises:
        ShapeMismatch, SizeMismatch, InvalidValue, MalformedBody: the bytes don't fit the input.
    """
    image = signature.images.get(spec.name)
    if image is not None:
        return image_tensors.read([bytes(data)], image, spec)
    if spec.datatype is BYTES:
        shape = tuple(1 for _ in spec.shape or (1,))
        check_shape(spec, shape, "")
        return np.array([binary.element_text(bytes(data), spec.name, 0, "")], BYTES.dtype).reshape(shape)
    return binary.read_tensor(data, spec, binary.raw_shape(spec, len(data)), "")
