"""Which requests of a model may run together, and how many rows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.schedule.padding import Padding
from service.tensors import Array, TensorSpec

DEFAULT_LIMIT_ROWS = 64


@dataclass(frozen=True, slots=True)
class Curve:
    """What the test at load found.

    Attributes:
        merges: whether requests may share a run.
        reason: why, or why not, in a sentence.
        rows_us: microseconds a row by number of rows in a run.
        best_rows: the number of rows from which more gives nothing.
        deviation: largest difference seen between a row alone and in a batch, relative to the output's size.
        padding: how requests of different lengths share a run; None where they don't.
        padding_reason: why, or why not, in a sentence; empty where nobody asked for it.
    """

    merges: bool
    reason: str
    rows_us: tuple[tuple[int, float], ...] = ()
    best_rows: int = 1
    deviation: float = 0.0
    padding: Padding | None = None
    padding_reason: str = ""


class Merging:
    """The rule of one model.

    Attributes:
        curve: what was measured, or why nothing was.
        limit_rows: rows of a run at most; 0 where requests run as they come.
        delay_ns: how long a request may wait for others to join its run.
    """

    __slots__ = ("_constant", "_names", "_outputs", "curve", "delay_ns", "limit_rows")

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[str],
        curve: Curve,
        limit_rows: int | None,
        delay_us: int = 0,
    ) -> None:
        """A rule for a model with these inputs, whose requests usually want these outputs."""
        self.curve = curve
        self.limit_rows = (limit_rows or max(curve.best_rows, 1)) if curve.merges else 0
        self.delay_ns = delay_us * 1000 if curve.merges else 0
        self._names = [spec.name for spec in inputs if not spec.optional]
        self._outputs = tuple(outputs)
        fixed = all(
            spec.shape is not None and all(isinstance(dim, int) for dim in spec.shape[1:])
            for spec in inputs
            if not spec.optional
        )
        self._constant = fixed

    def place(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> tuple[int, Any]:
        """Rows of a request, and the key under which it may be merged; None where it runs alone."""
        names = self._names
        if not names or not feeds[names[0]].ndim:
            return 1, None
        rows = len(feeds[names[0]])
        if not self.limit_rows:
            return rows if self.curve.best_rows else 1, None
        together = len(feeds) == len(names) and rows > 0
        for name in names[1:]:
            together = together and len(feeds[name]) == rows
        if not together:
            return rows, None
        if self._constant and outputs == self._outputs:
            return rows, self._outputs
        return rows, (outputs, *[feeds[name].shape[1:] for name in names])
