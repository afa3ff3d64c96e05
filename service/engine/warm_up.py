"""Inputs made from a signature, so that the first caller doesn't pay for the first run."""

from __future__ import annotations

import numpy as np

from service.tensors import Array, TensorSpec

_LARGEST_ELEMENTS = 64 * 1024 * 1024


def synthetic(inputs: tuple[TensorSpec, ...]) -> dict[str, Array] | None:
    """Feeds of zeros (empty strings) with every free dimension 1; None where a type or size forbids it."""
    feeds: dict[str, Array] = {}
    for spec in inputs:
        if spec.optional:
            continue
        if spec.datatype is None:
            return None
        shape = tuple(dim if isinstance(dim, int) else 1 for dim in spec.shape or ())
        if np.prod(shape, dtype=np.float64) > _LARGEST_ELEMENTS:
            return None
        array: Array = np.zeros(shape, spec.datatype.dtype)
        if spec.datatype.kind == "bytes":
            array = np.full(shape, "", object)
        feeds[spec.name] = array
    return feeds
