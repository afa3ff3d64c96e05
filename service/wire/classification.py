"""The best classes of an output instead of the tensor: `value:index[:label]`.

Source: Triton's `extension_classification.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from service.errors import InvalidRequest
from service.tensors import Array, Tensor
from service.wire.elements import texts
from service.wire.narrowing import widen_bf16


def best(tensor: Tensor, classes: int, labels: Sequence[str]) -> Array:
    """The `classes` largest values of each row, the largest first; equal values by index.

    A tensor of rank 2 or more has rows along its first axis and gives `(rows, classes)`; one of rank 0 or 1 is
    one row and gives `(classes,)`.

    Raises:
        InvalidRequest: the output holds no numbers.
    """
    array = tensor.array
    name = tensor.spec.name
    if tensor.spec.datatype is not None and tensor.spec.datatype.kind in ("bytes", "bool"):
        raise InvalidRequest(
            f"output '{name}' holds {tensor.spec.datatype.name}; classification needs numbers",
            pointer="/outputs",
        )
    if tensor.spec.datatype is not None and tensor.spec.datatype.name == "BF16":
        array = widen_bf16(array)
    names = tensor.labels or tuple(labels)
    rows = array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim > 1 else array.reshape(1, -1)
    chosen = [_row(row, classes, names) for row in rows]
    count = min(classes, rows.shape[1])
    flat = texts([text for row in chosen for text in row])
    return flat.reshape((len(rows), count) if array.ndim > 1 else (count,))


def _row(row: Array, classes: int, labels: Sequence[str]) -> list[str]:
    order = np.argsort(-row.astype(np.float64), kind="stable")[:classes]
    return [f"{row[index]:f}:{index}" + (f":{labels[index]}" if index < len(labels) else "") for index in order]
