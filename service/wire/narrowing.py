"""How doubles become the smaller floats, and which of them can."""

from __future__ import annotations

import sys

import numpy as np

from service.tensors import Array

LARGEST = {
    "FP16": 65519.99999999999,
    "BF16": 3.3961775292304601e38,
    "FP32": 3.4028235677973362e38,
    "FP64": sys.float_info.max,
}
"""Largest magnitude that rounds to a finite number of the datatype (to nearest, ties to even)."""


def round_to_bf16(array: Array) -> Array:
    """The upper halves of float32 numbers nearest to the array's, ties to even; NaN stays NaN.

    The double is first rounded to float32 with its last bit sticky (round to odd), since two roundings to nearest
    would not give the nearest BF16.
    """
    narrow = array.astype(np.float32)
    bits = narrow.view(np.uint32)
    inexact = (narrow.astype(np.float64) != array) & np.isfinite(narrow)
    overshot = inexact & (np.abs(narrow.astype(np.float64)) > np.abs(array))
    bits = np.where(overshot, bits - 1, bits) | inexact.astype(np.uint32)
    rounded: Array = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    rounded[np.isnan(array)] = 0x7FC0
    return rounded


def widen_bf16(array: Array) -> Array:
    """The float32 numbers of BF16's `uint16` bits; exact."""
    wide: Array = (array.astype(np.uint32) << 16).view(np.float32)
    return wide
