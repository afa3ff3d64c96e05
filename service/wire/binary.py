"""The binary tensor data extension: bytes behind the JSON, little-endian, row-major, without padding.

Source: Triton's `extension_binary_data.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from service.errors import InvalidValue, MalformedBody, ShapeMismatch, SizeMismatch
from service.tensors import BOOL, BYTES, Array, TensorSpec, element_count
from service.wire.elements import texts, utf8
from service.wire.signature import shown_shape

_LENGTH = struct.Struct("<I")


class Blobs:
    """The part of a body behind its JSON, taken tensor by tensor in the order of the document."""

    __slots__ = ("_data", "_taken")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._taken = 0

    def take(self, size_bytes: int, name: str, index: int) -> memoryview:
        """The next `size_bytes` bytes.

        Raises:
            SizeMismatch: fewer are left.
        """
        left = len(self._data) - self._taken
        if size_bytes > left:
            raise SizeMismatch(
                f"input '{name}': 'binary_data_size' says {size_bytes} bytes, {left} are left in the body",
                pointer=f"/inputs/{index}/parameters/binary_data_size",
                expected=size_bytes,
                received=left,
            )
        blob = self._data[self._taken : self._taken + size_bytes]
        self._taken += size_bytes
        return blob

    def rest(self) -> memoryview:
        """Everything that is left."""
        blob = self._data[self._taken :]
        self._taken = len(self._data)
        return blob

    def check_finished(self) -> None:
        """Raises SizeMismatch if bytes are left that belong to no tensor."""
        left = len(self._data) - self._taken
        if left:
            raise SizeMismatch(
                f"{left} bytes are left in the body after the last input; the sum of all 'binary_data_size' and "
                "Inference-Header-Content-Length must be the body's length",
                received=left,
            )


def split(body: bytes | bytearray | memoryview, json_size: str) -> tuple[memoryview, Blobs]:
    """The JSON part and the rest.

    Raises:
        MalformedBody: the header is no whole number within the body.
    """
    view = memoryview(body)
    text = json_size.strip()
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1  # noqa: PLR2004 - 64 bits
    if not 0 <= size <= len(view):
        raise MalformedBody(
            f"Inference-Header-Content-Length: expected a whole number from 0 to {len(view)} (the body's length), "
            f"got '{json_size[:40]}'",
            received=json_size[:40],
        )
    return view[:size], Blobs(view[size:])


def read_tensor(blob: memoryview, spec: TensorSpec, shape: tuple[int, ...], pointer: str) -> Array:
    """The array over a blob, without a copy where its address allows.

    Raises:
        SizeMismatch: the blob's size isn't the shape's.
        InvalidValue: a BOOL that is neither 0 nor 1, a BYTES element that isn't UTF-8.
    """
    datatype = spec.datatype
    if datatype is None or datatype is BYTES:
        elements = byte_elements(blob, shape, spec.name, pointer)
        return texts([element_text(raw, spec.name, index, pointer) for index, raw in enumerate(elements)]).reshape(
            shape
        )
    expected = element_count(shape) * datatype.size_bytes
    if len(blob) != expected:
        raise SizeMismatch(
            f"input '{spec.name}': shape {list(shape)} of {datatype.name} takes {expected} bytes, got {len(blob)}",
            pointer=pointer,
            expected=expected,
            received=len(blob),
        )
    array: Array = np.frombuffer(blob, datatype.dtype).reshape(shape)
    if datatype is BOOL and array.size and array.view(np.uint8).max() > 1:
        raise InvalidValue(f"input '{spec.name}': a BOOL must be the byte 0 or 1", pointer=pointer)
    return array if array.flags.aligned else array.copy()


def byte_elements(blob: memoryview, shape: Sequence[int], name: str, pointer: str) -> list[bytes]:
    """The elements of a BYTES tensor: each a length of four bytes and that many bytes.

    Raises:
        SizeMismatch: the lengths don't add up to the blob, or to the shape's number of elements.
    """
    count = element_count(tuple(shape))
    elements: list[bytes] = []
    offset = 0
    while offset < len(blob) and len(elements) <= count:
        if offset + 4 > len(blob):
            raise SizeMismatch(f"input '{name}': the length of element {len(elements)} is cut off", pointer=pointer)
        (size,) = _LENGTH.unpack_from(blob, offset)
        offset += 4
        if offset + size > len(blob):
            raise SizeMismatch(
                f"input '{name}': element {len(elements)} says {size} bytes, {len(blob) - offset} are left",
                pointer=pointer,
            )
        elements.append(bytes(blob[offset : offset + size]))
        offset += size
    if len(elements) != count or offset != len(blob):
        raise SizeMismatch(
            f"input '{name}': shape {list(shape)} holds {count} elements, the bytes hold "
            f"{'more' if offset < len(blob) or len(elements) > count else len(elements)}",
            pointer=pointer,
            expected=count,
        )
    return elements


def element_text(raw: bytes, name: str, index: int, pointer: str) -> str:
    """The text of one BYTES element; raises InvalidValue unless it is UTF-8."""
    return utf8(raw, f"input '{name}', element {index}", pointer)


def raw_shape(spec: TensorSpec, size_bytes: int) -> tuple[int, ...]:
    """The shape of a raw request's tensor: its one free dimension follows from the size, a free batch is 1.

    Raises:
        ShapeMismatch: the rank is unknown or more than one dimension is free beside the batch.
        SizeMismatch: the size fits no length of the free dimension.
    """
    declared = spec.shape
    if declared is None or spec.datatype is None:
        raise ShapeMismatch(
            f"input '{spec.name}' has no fixed rank; a raw binary request needs one: send the JSON header"
        )
    free = [axis for axis, dim in enumerate(declared) if not isinstance(dim, int)]
    if len(free) > 1 and free[0] == 0:
        free = free[1:]
    if len(free) > 1:
        raise ShapeMismatch(
            f"input '{spec.name}' has several free dimensions in {shown_shape(declared)}; "
            "a raw binary request can leave only one open: send the JSON header"
        )
    shape = [dim if isinstance(dim, int) else 1 for dim in declared]
    row_bytes = element_count(tuple(shape)) * spec.datatype.size_bytes
    if free:
        if not row_bytes or size_bytes % row_bytes:
            raise SizeMismatch(
                f"input '{spec.name}': {size_bytes} bytes are no multiple of {row_bytes}, the size of a row of "
                f"{shown_shape(declared)}",
                received=size_bytes,
            )
        shape[free[0]] = size_bytes // row_bytes
    return tuple(shape)


def write_bytes(array: Array) -> bytes:
    """The elements of a string array, each behind its length."""
    parts: list[bytes] = []
    for text in array.ravel():
        raw = text.encode() if isinstance(text, str) else bytes(text)
        parts.append(_LENGTH.pack(len(raw)))
        parts.append(raw)
    return b"".join(parts)
