"""The answer to a plain request, written from pieces that don't change.

Equal byte for byte to what `v2_answer` writes; where that isn't plainly so, the answer is None and it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from service.tensors import FP32, FP64, Array, TensorSpec

_MOST_SHAPES = 256
_NUMBERS = orjson.OPT_SERIALIZE_NUMPY
_WRITTEN = (FP32, FP64)


class PlainWriter:
    """Writes the answers of one model version, all of whose outputs are floats."""

    __slots__ = ("_pieces", "_shapes")

    def __init__(self, name: str, version: str, outputs: Sequence[TensorSpec]) -> None:
        """For a model that `fits`."""
        opening = b'{"model_name":%b,"model_version":%b,"outputs":[' % (orjson.dumps(name), orjson.dumps(version))
        self._pieces: list[bytes] = []
        for spec in outputs:
            datatype = b"" if spec.datatype is None else spec.datatype.name.encode()
            self._pieces.append(opening + b'{"name":%b,"datatype":"%b","shape":[' % (orjson.dumps(spec.name), datatype))
            opening = b","
        self._shapes: dict[tuple[int, ...], bytes] = {}

    def write(self, arrays: Sequence[Array]) -> bytes | None:
        """The body; None where an array isn't laid out for it.

        Args:
            arrays: one for each output, in order.
        """
        parts: list[bytes] = []
        for piece, array in zip(self._pieces, arrays, strict=True):
            shape = self._shapes.get(array.shape)
            if shape is None:
                shape = self._learn(array.shape)
            if not array.flags.c_contiguous:
                return None
            parts += (piece, shape, orjson.dumps(array.ravel(), option=_NUMBERS), b"}")
        parts.append(b"]}")
        return b"".join(parts)

    def _learn(self, shape: tuple[int, ...]) -> bytes:
        text = b",".join(b"%d" % length for length in shape) + b'],"data":'
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes[shape] = text
        return text


def fits(outputs: Sequence[TensorSpec]) -> bool:
    """Whether a model's answers can be written so."""
    return all(spec.datatype in _WRITTEN and not spec.class_map for spec in outputs)
