"""Requests of different lengths made to fit one run: filled up on the way in, cut back on the way out.

The test at load runs these same functions, so that what it finds holds for what is served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.tensors import Array


@dataclass(frozen=True, slots=True)
class PaddedInput:
    """An input one of whose axes varies in length.

    Attributes:
        name: of the input.
        axis: the one that varies, the batch being axis 0.
        value: what it is filled up with, of the input's own numpy type once the model is open.
    """

    name: str
    axis: int
    value: Any


@dataclass(frozen=True, slots=True)
class Padding:
    """How requests of one model are padded, after the test at load.

    Attributes:
        inputs: those that are filled up; a request's are all of one length.
        output_axes: by output, the axes that follow this length.
        max_waste: share of a run's positions that may be padding.
        worth_positions: positions of padding that one run saved is worth.
    """

    inputs: tuple[PaddedInput, ...]
    output_axes: Mapping[str, tuple[int, ...]]
    max_waste: float
    worth_positions: float

    def length(self, feeds: Mapping[str, Array]) -> int:
        """Length of a request."""
        first = self.inputs[0]
        length: int = feeds[first.name].shape[first.axis]
        return length


def join(parts: Sequence[Mapping[str, Array]], padding: Padding) -> dict[str, Array]:
    """Requests as one, each filled up to the length of the longest.

    Args:
        parts: array by input name; shapes are equal but for rows and length.
        padding: which axes, and with what.
    """
    lengths = [padding.length(feeds) for feeds in parts]
    longest = max(lengths)
    varying = {} if min(lengths) == longest else {each.name: each for each in padding.inputs}
    joined = {}
    for name in parts[0]:
        arrays = [feeds[name] for feeds in parts]
        padded = varying.get(name)
        joined[name] = np.concatenate(arrays) if padded is None else _filled_up(arrays, padded, longest)
    return joined


def _filled_up(arrays: Sequence[Array], padded: PaddedInput, longest: int) -> Array:
    axis = padded.axis
    shape = list(arrays[0].shape)
    shape[0], shape[axis] = sum(map(len, arrays)), longest
    whole = np.full(shape, padded.value, arrays[0].dtype)
    between = (slice(None),) * (axis - 1)
    start = 0
    for array in arrays:
        stop = start + len(array)
        whole[(slice(start, stop), *between, slice(array.shape[axis]))] = array
        start = stop
    return whole


def part(
    results: Sequence[Array], outputs: Sequence[str], parts: Sequence[tuple[int, int]], padding: Padding
) -> list[list[Array]] | None:
    """The arrays of each request of a run, in its own length; None where the run's shapes aren't as they should be.

    Args:
        results: of the run.
        outputs: their names.
        parts: rows and length of each request, in the order of the run.
        padding: which axes are cut.
    """
    rows = sum(count for count, _ in parts)
    longest = max(length for _, length in parts)
    axes = [padding.output_axes[name] for name in outputs]
    for result, cut in zip(results, axes, strict=True):
        if not result.ndim or len(result) != rows or any(result.shape[axis : axis + 1] != (longest,) for axis in cut):
            return None
    shares = []
    start = 0
    for count, length in parts:
        own = [result[start : start + count] for result in results]
        start += count
        shares.append(own if length == longest else [_cut(*each, length) for each in zip(own, axes, strict=True)])
    return shares


def _cut(array: Array, axes: Sequence[int], length: int) -> Array:
    """Cut back to its length, and in one piece, which the writers of answers are quickest with."""
    if not axes:
        return array
    kept = [slice(None)] * array.ndim
    for axis in axes:
        kept[axis] = slice(length)
    return np.ascontiguousarray(array[tuple(kept)])
