"""Finds out at load whether padding leaves the rows of a model as they are, and how much of it a saved run is worth.

Rows of several lengths run alone, then filled up together in several orders, the shortest and the longest first and
last, by the functions that serve requests. Which axes of the outputs follow the length shows in the runs alone:
declared output shapes can be wrong.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from service.catalog.padding_table import PaddingTable, fitted
from service.catalog.probe import Dependent, difference, random_rows
from service.errors import ServiceError
from service.schedule.batcher import Run
from service.schedule.merging import Curve
from service.schedule.padding import PaddedInput, Padding, join, part
from service.tensors import BF16, Array, TensorSpec
from service.wire.narrowing import round_to_bf16

_LENGTHS = ((1, 5, 9, 17, 32), (2, 3, 4, 6, 8))
"""Lengths of the rows; the second set is for models that take no longer ones."""
_HIGHEST = (100, 2)
_ORDERS = ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 3, 1), (0, 4), (4, 0))
_MASKED_ROW, _MASKED = 2, 2
"""The row whose last positions are masked by its caller, and how many are."""
_LONG_PER_SHORT = 4
_TOGETHER = 4
_BUDGET_S = 0.4
_MARGIN = 2
"""How much more a run has to save than its padding takes."""
_LEAST_POSITIONS = 2
"""Fewer are of no use: hardly any requests differ by so little, and looking for them costs, too."""
_FEWEST_TURNS, _MOST_TURNS = 2, 50


def probe_padding(
    run: Run,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    wanted: PaddingTable,
    curve: Curve,
) -> Curve:
    """Tests and measures padding.

    Args:
        run: runs the model.
        inputs: its declared inputs, which the table fits.
        outputs: the outputs that are served.
        wanted: the table of the configuration.
        curve: what the test of merging found.

    Returns:
        The curve with what was found of padding.
    """
    if not curve.merges:
        return dataclasses.replace(curve, padding_reason=f"not padded, since {curve.reason}")
    try:
        required = [spec for spec in inputs if not spec.optional]
        rows = _rows_of_lengths(run, required, [spec.name for spec in outputs], wanted)
        padding, deviation = _checked(run, rows, outputs, Padding(fitted(wanted, inputs), {}, wanted.max_waste, 0.0))
        worth = _worth_positions(run, rows[-1], outputs, padding)
    except Dependent as found:
        return dataclasses.replace(curve, padding_reason=f"not padded: with rows of other lengths, {found}")
    except ServiceError as fault:
        sentence = f"not padded: the test at load could not run ({fault.__cause__ or fault})"
        return dataclasses.replace(curve, padding_reason=sentence)
    if worth < _LEAST_POSITIONS:
        return dataclasses.replace(curve, padding_reason="not padded: it would cost more than the runs that it saves")
    return dataclasses.replace(
        curve,
        padding=dataclasses.replace(padding, worth_positions=worth),
        padding_reason=_told(worth, wanted.max_waste),
        deviation=max(curve.deviation, deviation),
    )


def _told(worth_positions: float, max_waste: float) -> str:
    bound = f"at most {max_waste:.0%} of a run is padding"
    if worth_positions == float("inf"):
        return f"padded: {bound}"
    return f"padded: {bound}, and {worth_positions:.0f} positions for each run saved"


def _rows_of_lengths(
    run: Run, inputs: Sequence[TensorSpec], names: Sequence[str], wanted: PaddingTable
) -> list[dict[str, Array]]:
    """Rows that the model takes, the shortest first, no two alike."""
    fault: ServiceError | None = None
    for lengths in _LENGTHS:
        for highest in _HIGHEST:
            rows = _made(inputs, wanted, highest, lengths)
            try:
                run(rows[0], names)
                run(rows[-1], names)
            except ServiceError as error:
                fault = error
                continue
            return rows
    raise fault if fault is not None else Dependent("there is nothing to try")


def _made(
    inputs: Sequence[TensorSpec], wanted: PaddingTable, highest: int, lengths: Sequence[int]
) -> list[dict[str, Array]]:
    varying = {padded.name: padded for padded in fitted(wanted, inputs)}
    feeds = {}
    for spec in inputs:
        padded = varying.get(spec.name)
        array = random_rows(spec, highest, *((padded.axis, lengths[-1]) if padded else ()))
        feeds[spec.name] = _ones(spec, array) if spec.name == wanted.mask else array
    rows = [_shortened(feeds, row, length, varying) for row, length in enumerate(lengths)]
    if wanted.mask is not None:
        mask, axis = rows[_MASKED_ROW][wanted.mask], varying[wanted.mask].axis
        np.moveaxis(mask, axis, -1)[..., -_MASKED:] = 0
    return rows


def _ones(spec: TensorSpec, array: Array) -> Array:
    return round_to_bf16(np.ones(array.shape)) if spec.datatype is BF16 else np.ones_like(array)


def _shortened(
    feeds: Mapping[str, Array], row: int, length: int, varying: Mapping[str, PaddedInput]
) -> dict[str, Array]:
    """One row, in a length of its own."""
    one = {}
    for name, array in feeds.items():
        own = array[row : row + 1]
        if name in varying:
            own = own[(slice(None),) * varying[name].axis + (slice(length),)]
        one[name] = own.copy()
    return one


def _checked(
    run: Run, rows: Sequence[dict[str, Array]], outputs: Sequence[TensorSpec], padding: Padding
) -> tuple[Padding, float]:
    """The padding with the axes to cut, and the largest deviation; raises where a row doesn't keep its answer."""
    names = [spec.name for spec in outputs]
    lengths = [padding.length(row) for row in rows]
    alone = [run(row, names) for row in rows]
    axes = {
        spec.name: _following(spec, [results[index] for results in alone], lengths)
        for index, spec in enumerate(outputs)
    }
    padding = dataclasses.replace(padding, output_axes=axes)
    deviation = 0.0
    for order in _ORDERS:
        results = run(join([rows[row] for row in order], padding), names)
        shares = part(results, names, [(1, lengths[row]) for row in order], padding)
        if shares is None:
            raise Dependent("padded rows together have outputs of other lengths than alone")
        for row, share in zip(order, shares, strict=True):
            for spec, padded, single in zip(outputs, share, alone[row], strict=True):
                if padded.shape != single.shape:
                    raise Dependent(f"output '{spec.name}' has another shape when its row is padded")
                deviation = max(deviation, difference(spec, padded, single, row))
    return padding, deviation


def _following(spec: TensorSpec, results: Sequence[Array], lengths: Sequence[int]) -> tuple[int, ...]:
    """The axes of an output that are as long as each request; raises where one changes in another way."""
    if len({result.ndim for result in results}) > 1 or not results[0].ndim:
        raise Dependent(f"output '{spec.name}' has no row for each row of the input")
    following = []
    for axis in range(1, results[0].ndim):
        found = [result.shape[axis] for result in results]
        if found == list(lengths):
            following.append(axis)
        elif len(set(found)) > 1:
            raise Dependent(f"axis {axis} of output '{spec.name}' has lengths {found} for {list(lengths)}")
    return tuple(following)


def _worth_positions(run: Run, longest: Mapping[str, Array], outputs: Sequence[TensorSpec], padding: Padding) -> float:
    """Positions of padding that one run saved is worth.

    What a run saves is what it takes less than its requests one by one, filling up and cutting back included; what a
    position takes shows in runs of a short and a long length.
    """
    names = [spec.name for spec in outputs]
    varying = {padded.name: padded for padded in padding.inputs}
    long = padding.length(longest)
    short = long // _LONG_PER_SHORT
    shortest = _shortened(longest, 0, short, varying)
    mixed = [shortest] * (_TOGETHER - 1) + [longest]
    parts = [(1, padding.length(row)) for row in mixed]
    alike = join([shortest] * _TOGETHER, padding)
    short_s, long_s, one_short_s, one_long_s = _fastest_s(
        lambda: run(alike, names),
        lambda: part(run(join(mixed, padding), names), names, parts, padding),
        lambda: run(shortest, names),
        lambda: run(longest, names),
    )
    saved_s = (_TOGETHER * (one_short_s + one_long_s) - short_s - long_s) / (_TOGETHER - 1) / 2
    position_s = (long_s - short_s) / (_TOGETHER * (long - short))
    return saved_s / position_s / _MARGIN if position_s > 0 else float("inf")


def _fastest_s(*runs: Callable[[], object]) -> list[float]:
    """Seconds of each at its fastest; they take turns, so that what else the machine does meets all of them."""
    began_s = time.perf_counter()
    best_s = [float("inf")] * len(runs)
    for turn in range(_MOST_TURNS):
        if turn >= _FEWEST_TURNS and time.perf_counter() - began_s > _BUDGET_S:
            break
        for index, run in enumerate(runs):
            one_s = time.perf_counter()
            run()
            best_s[index] = min(best_s[index], time.perf_counter() - one_s)
    return best_s
