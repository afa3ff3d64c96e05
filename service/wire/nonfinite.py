"""NaN and infinities in JSON answers, which JSON has no word for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from service.errors import InvalidRequest
from service.tensors import Array

POLICIES = ("null", "string", "token", "error")
"""Values of the request parameter `nan`: null, text, the bare words of JavaScript, or an error."""


class Token(float):
    """A number that isn't finite, to be written as a bare word."""


def has_nonfinite(array: Array) -> bool:
    """Whether a float array holds a NaN or an infinity."""
    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def spelled(array: Array, policy: str, name: str) -> list[Any]:
    """The elements of a float array, flat, those that aren't finite as the policy says.

    Raises:
        InvalidRequest: the policy is `error`.
    """
    if policy == "error":
        raise InvalidRequest(
            f"output '{name}' holds NaN or an infinity, and the request asked for an error then (parameter nan)"
        )
    # float32 is printed by its own shortest decimals, which a list of Python floats would lose.
    return [value if math.isfinite(value) else word(float(value)) for value in array.ravel()]


def word(value: float) -> str:
    """`NaN`, `Infinity` or `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
