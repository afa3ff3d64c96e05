"""Finds out at load whether requests of a model may share a run, and how many rows pay.

Two questions, answered by running the model. Do its rows stand alone: is each row's answer in a batch the one it
gets by itself, the first and the last included? And is a batch faster than its rows one by one? Rows differ from
each other, since equal rows would prove nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from service.errors import ServiceError
from service.schedule.batcher import Run
from service.schedule.merging import Curve
from service.tensors import BF16, FP16, Array, TensorSpec
from service.wire.narrowing import round_to_bf16, widen_bf16

ROWS = 5
_FREE_LENGTH = 8
_TOLERANCE, _HALF_TOLERANCE = 1e-4, 2e-2
_WORTH = 0.9
"""Time a row in a batch, relative to alone, from which merging is worth it."""
_FLAT = 0.97
_REPEATS = 30
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Dependent(Exception):
    """Rows depend on each other; the message says how it showed."""


def structure(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str | None:
    """Why a model can't be batched by its declared shapes; None where it can."""
    required = [spec for spec in inputs if not spec.optional]
    if not required:
        return "it has no inputs"
    for spec in (*required, *outputs):
        if spec.class_map:
            continue
        if spec.shape is None:
            return f"the rank of '{spec.name}' is unknown"
        if not spec.shape or isinstance(spec.shape[0], int):
            return f"the first dimension of '{spec.name}' is fixed"
    return None


def probe(
    run: Run,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    limit_rows: int,
    budget_s: float,
) -> Curve:
    """Tests and measures a model.

    Args:
        run: runs it.
        inputs: its declared inputs.
        outputs: the outputs that are served.
        limit_rows: largest batch to look at.
        budget_s: about the time to spend.
    """
    reason = structure(inputs, outputs)
    if reason is not None:
        return Curve(merges=False, reason=f"not merged: {reason}", best_rows=0)
    names = [spec.name for spec in outputs]
    required = [spec for spec in inputs if not spec.optional]
    try:
        feeds = _distinct_rows(run, required, names)
        deviation = _check_rows(run, feeds, outputs)
        rows_us = _measure(lambda rows: run(_repeat(feeds, rows), names), limit_rows, budget_s)
    except Dependent as found:
        return Curve(merges=False, reason=f"not merged: {found}", best_rows=1)
    except ServiceError as fault:
        return Curve(merges=False, reason=f"not merged: the test at load could not run ({fault.__cause__ or fault})")
    best_rows = min(rows_us, key=lambda size: rows_us[size])
    gain = rows_us[best_rows] / rows_us[1]
    curve = tuple(rows_us.items())
    if gain > _WORTH:
        return Curve(False, "not merged: rows together are not faster than one by one", curve, 1, deviation)
    return Curve(True, f"merged: a row in {best_rows} takes {gain:.2f} of its time alone", curve, best_rows, deviation)


def _distinct_rows(run: Run, inputs: Sequence[TensorSpec], names: Sequence[str]) -> dict[str, Array]:
    """Rows that the model takes, no two alike."""
    fault: ServiceError | None = None
    for highest in (100, 2):
        feeds = {spec.name: random_rows(spec, highest) for spec in inputs}
        try:
            run(_rows(feeds, 0, 1), names)
        except ServiceError as error:
            fault = error
            continue
        return feeds
    raise fault if fault is not None else Dependent("it has no inputs")


def random_rows(spec: TensorSpec, highest: int, axis: int = 0, length: int = 0) -> Array:
    """Random elements of shape `(5, …)`, free inner dimensions of length 8, that of `axis` of another one."""
    generator = np.random.default_rng(len(spec.name) + 7)
    shape = [dim if isinstance(dim, int) else _FREE_LENGTH for dim in spec.shape or (0,)]
    shape[0] = ROWS
    if axis:
        shape[axis] = length
    kind = spec.datatype.kind if spec.datatype is not None else "float"
    if kind == "float":
        numbers: Array = generator.standard_normal(shape)
        if spec.datatype is BF16:
            return round_to_bf16(numbers)
        return numbers.astype(spec.datatype.dtype if spec.datatype is not None else np.float32)
    if kind == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    integers: Array = generator.integers(0, highest, shape)
    if kind == "bytes":
        texts = np.empty(shape, object)
        texts.ravel()[:] = [str(number) for number in integers.ravel()]
        return texts
    return integers.astype(spec.datatype.dtype if spec.datatype is not None else np.int64)


def _check_rows(run: Run, feeds: Mapping[str, Array], outputs: Sequence[TensorSpec]) -> float:
    names = [spec.name for spec in outputs]
    alone = [run(_rows(feeds, row, row + 1), names) for row in range(ROWS)]
    deviation = 0.0
    for order in (range(ROWS), (ROWS - 1, 0), (2, 1, 3)):
        together = run({name: array[list(order)] for name, array in feeds.items()}, names)
        for index, row in enumerate(order):
            for spec, batch, single in zip(outputs, together, alone[row], strict=True):
                if not batch.ndim or len(batch) != len(order) or batch.shape[1:] != single.shape[1:]:
                    raise Dependent(f"output '{spec.name}' has no row for each row of the input")
                deviation = max(deviation, difference(spec, batch[index], single[0], row))
    return deviation


def difference(spec: TensorSpec, batch: Array, single: Array, row: int) -> float:
    """Relative difference of one row in a batch and alone; raises where it is too large."""
    if spec.datatype is not None and spec.datatype.kind != "float":
        if not np.array_equal(batch, single):
            raise Dependent(f"row {row} of output '{spec.name}' differs in a batch")
        return 0.0
    if spec.datatype is BF16:
        batch, single = widen_bf16(np.atleast_1d(batch)), widen_bf16(np.atleast_1d(single))
    wide_batch, wide_single = np.asarray(batch, np.float64), np.asarray(single, np.float64)
    if not np.array_equal(np.isfinite(wide_batch), np.isfinite(wide_single)):
        raise Dependent(f"row {row} of output '{spec.name}' differs in a batch")
    finite = np.isfinite(wide_single)
    scale = float(np.abs(wide_single[finite]).max(initial=0.0)) or 1.0
    worst = float(np.abs(wide_batch[finite] - wide_single[finite]).max(initial=0.0)) / scale
    if worst > (_HALF_TOLERANCE if spec.datatype in (BF16, FP16) else _TOLERANCE):
        raise Dependent(f"row {row} of output '{spec.name}' differs in a batch by {worst:.1e} of its size")
    return worst


def _measure(run: Callable[[int], object], limit_rows: int, budget_s: float) -> dict[int, float]:
    """Microseconds a row by batch size; stops where more rows give nothing or the time is up."""
    started_s = time.perf_counter()
    rows_us: dict[int, float] = {}
    flat = 0
    for rows in (size for size in _SIZES if size <= max(limit_rows, 1)):
        spent_s = time.perf_counter() - started_s
        if len(rows_us) > 2 and spent_s > budget_s:  # noqa: PLR2004 - 1, 2 and 4 rows are always looked at
            break
        try:
            row_us = _fastest_s(run, rows, budget_s / len(_SIZES)) / rows * 1e6
        except ServiceError:
            if rows_us:
                break
            raise
        flat = flat + 1 if rows_us and row_us > _FLAT * min(rows_us.values()) else 0
        rows_us[rows] = row_us
        if flat > 1:
            break
    return rows_us


def _fastest_s(run: Callable[[int], object], rows: int, budget_s: float) -> float:
    began_s = time.perf_counter()
    run(rows)
    best_s = time.perf_counter() - began_s
    for _ in range(_REPEATS):
        if time.perf_counter() - began_s + best_s > budget_s:
            break
        one_s = time.perf_counter()
        run(rows)
        best_s = min(best_s, time.perf_counter() - one_s)
    return best_s


def _rows(feeds: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
    return {name: array[start:stop] for name, array in feeds.items()}


def _repeat(feeds: Mapping[str, Array], rows: int) -> dict[str, Array]:
    return {name: np.resize(array, (rows, *array.shape[1:])) for name, array in feeds.items()}
