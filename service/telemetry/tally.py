"""Sums of one model version in plain Python, written to the shared series now and then.

A write to a shared series costs microseconds and a request touches two dozen of them: more than many inferences.
Adding up here costs a few, and what has gathered is written at once.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

import numpy as np

from service.errors import DeadlinePassed, NotReady, RefusedByModel, RunFailed
from service.telemetry.outcome import Figures, Outcome, Timing
from service.telemetry.series import STORE, Key
from service.tensors import Array

_FINE_FIRST_NS = 250_000
_COARSE_FIRST_NS = 15_625
_LAST_EDGE_NS = 30_000_000_000
_MOST_BATCH_SIZES = 64


def edges_ns(first_ns: int, ratio: float) -> tuple[int, ...]:
    """Upper edges by a constant ratio, to beyond the longest request."""
    edges: list[float] = [first_ns]
    while edges[-1] < _LAST_EDGE_NS:
        edges.append(edges[-1] * ratio)
    return tuple(round(edge) for edge in edges)


FINE_NS = edges_ns(_FINE_FIRST_NS, 2**0.5)
COARSE_NS = edges_ns(_COARSE_FIRST_NS, 2.0)
PHASES = ("read", "queue", "run", "write")

COUNTERS = {
    "nv_inference_request_success": "Number of successful inference requests, all batch sizes",
    "nv_inference_count": "Number of inferences performed (does not include cached requests)",
    "nv_inference_exec_count": "Number of model executions performed (does not include cached requests)",
    "nv_inference_request_duration_us": "Cumulative inference request duration in microseconds",
    "nv_inference_queue_duration_us": "Cumulative inference queuing duration in microseconds",
    "nv_inference_compute_input_duration_us": "Cumulative compute input duration in microseconds",
    "nv_inference_compute_infer_duration_us": "Cumulative compute inference duration in microseconds",
    "nv_inference_compute_output_duration_us": "Cumulative inference compute output duration in microseconds",
    "pinion_request_failure_duration_us": "Cumulative duration of failed inference requests in microseconds",
}
"""Counters of a model version and their help; those called `nv_…` have Triton's names, labels and meaning, compute
input being the reading of a request and compute output the writing of its answer."""
FAILURE = {"nv_inference_request_failure": "Number of failed inference requests, all batch sizes"}
BATCH = {
    "pinion_batch_executions": "Number of model executions by number of rows",
    "pinion_batch_compute_input_duration_us": "Reading time of requests by rows of their run, in microseconds",
    "pinion_batch_compute_infer_duration_us": "Run time by rows, in microseconds",
    "pinion_batch_compute_output_duration_us": "Writing time of requests by rows of their run, in microseconds",
}
REASONS = {
    NotReady.slug: "REJECTED",
    DeadlinePassed.slug: "REJECTED",
    RunFailed.slug: "BACKEND",
    RefusedByModel.slug: "BACKEND",
}
"""Triton's word for a kind of error; OTHER for all the rest."""
_OTHER = "OTHER"
_ROWS, _BATCH_ROWS, _LEADS, _READ, _QUEUE, _RUN, _WRITE, _TOTAL = range(len(Timing._fields))
_DURATIONS = {
    "nv_inference_request_duration_us": _TOTAL,
    "nv_inference_queue_duration_us": _QUEUE,
    "nv_inference_compute_input_duration_us": _READ,
    "nv_inference_compute_infer_duration_us": _RUN,
    "nv_inference_compute_output_duration_us": _WRITE,
}
"""Counters of microseconds, and the columns of a table of timings that they add up."""
_LAST = "pinion_last_inference_ms"
_LAST_TEXT = "Wall clock of the last inference, milliseconds since the epoch"


class Counters:
    """Counters with the same labels, and what they have not been given yet."""

    __slots__ = ("_values", "sums")

    def __init__(self, names: dict[str, str], labels: dict[str, str]) -> None:
        keys = [Key("counter", name, name, tuple(labels), tuple(labels.values()), text) for name, text in names.items()]
        self._values = {key.metric: STORE.value(key) for key in keys}
        self.sums = dict.fromkeys(names, 0.0)

    def flush(self) -> None:
        """Writes what is new; what fails to be written is lost, never counted twice."""
        for name, amount in self.sums.items():
            if amount:
                self.sums[name] = 0.0
                self._values[name].inc(amount)


class Histogram:
    """Counts of one histogram that have not been written yet."""

    __slots__ = ("_bounds_ns", "_buckets", "_edges_ns", "_new", "_sum", "_sum_ns")

    def __init__(self, name: str, text: str, labels: dict[str, str], edges: Sequence[int]) -> None:
        names, label_values = tuple(labels), tuple(labels.values())
        bounds = (*(repr(edge / 1e9) for edge in edges), "+Inf")
        self._edges_ns = edges
        self._bounds_ns = np.array(edges, np.int64)
        self._buckets = [
            STORE.value(Key("histogram", name, f"{name}_bucket", (*names, "le"), (*label_values, bound), text))
            for bound in bounds
        ]
        self._sum = STORE.value(Key("histogram", name, f"{name}_sum", names, label_values, text))
        self._new: dict[int, int] = {}
        self._sum_ns = 0

    def add(self, duration_ns: int) -> None:
        """Counts one observation."""
        index = bisect_left(self._edges_ns, duration_ns)
        self._new[index] = self._new.get(index, 0) + 1
        self._sum_ns += duration_ns

    def add_all(self, durations_ns: Array) -> None:
        """Counts many observations, an int64 array of shape `(n,)`."""
        counts = np.bincount(np.searchsorted(self._bounds_ns, durations_ns))
        for index in counts.nonzero()[0].tolist():
            self._new[index] = self._new.get(index, 0) + int(counts[index])
        self._sum_ns += int(durations_ns.sum())

    def flush(self) -> None:
        """Writes what is new."""
        if not self._new:
            return
        new, self._new = self._new, {}
        sum_ns, self._sum_ns = self._sum_ns, 0
        for index, count in new.items():
            self._buckets[index].inc(count)
        self._sum.inc(sum_ns / 1e9)


class Tally:
    """Everything counted for one version of one model."""

    __slots__ = (
        "_all",
        "_batches",
        "_failures",
        "_labels",
        "_last",
        "_last_ms",
        "_pending",
        "_phases",
        "_requests",
        "_runs",
        "dirty",
    )

    def __init__(self, model: str, version: str, histograms: tuple[str, str]) -> None:
        """Series at 0.

        Args:
            model: its name.
            version: of the model.
            histograms: model and version in the labels of the histograms, which many models may have to share.
        """
        self._labels = labels = {"model": model, "version": version}
        self._all = Counters(COUNTERS, labels)
        self._failures = {
            reason: Counters(FAILURE, {**labels, "reason": reason})
            for reason in (*dict.fromkeys(REASONS.values()), _OTHER)
        }
        self._batches: dict[int, Counters] = {}
        self._last = STORE.value(Key("gauge", _LAST, _LAST, tuple(labels), (model, version), _LAST_TEXT))
        self._last_ms = 0
        shared = dict(zip(labels, histograms, strict=True))
        self._requests = Histogram("pinion_request_duration_seconds", "Time from arrival to answer", shared, FINE_NS)
        self._runs = Histogram("pinion_run_duration_seconds", "Time of the model's run", shared, FINE_NS)
        self._phases = [
            Histogram("pinion_phase_duration_seconds", "Time by phase", {**shared, "phase": phase}, COARSE_NS)
            for phase in PHASES
        ]
        self._pending: deque[Figures] = deque()
        self.dirty = False

    def succeed(self, figures: Figures) -> None:
        """Takes note of a request that was answered; counted with the others at the next flush."""
        self._pending.append(figures)
        self.dirty = True

    def fail(self, outcome: Outcome) -> None:
        """Counts a request that failed."""
        self.dirty = True
        self._requests.add(outcome.timing.total_ns)
        self._failures[REASONS.get(outcome.error or "", _OTHER)].sums["nv_inference_request_failure"] += 1
        self._all.sums["pinion_request_failure_duration_us"] += outcome.timing.total_ns / 1e3
        if outcome.executed:
            for histogram, duration_ns in zip(self._phases, outcome.timing[_READ:_TOTAL], strict=True):
                histogram.add(duration_ns)
            if outcome.timing.leads:
                self._runs.add(outcome.timing.run_ns)

    def _settle(self) -> None:
        """Adds up the requests that were answered since the last flush, all at once."""
        # Another thread may add one meanwhile.
        pending = [self._pending.popleft() for _ in range(len(self._pending))]
        table = np.array(pending, np.int64)
        totals = table.sum(axis=0).tolist()
        leaders = table[table[:, _LEADS] == 1]
        self._last_ms = time.time_ns() // 1_000_000
        sums = self._all.sums
        sums["nv_inference_request_success"] += len(pending)
        sums["nv_inference_count"] += totals[_ROWS]
        sums["nv_inference_exec_count"] += len(leaders)
        for name, column in _DURATIONS.items():
            sums[name] += totals[column] / 1e3
        self._requests.add_all(table[:, _TOTAL])
        self._runs.add_all(leaders[:, _RUN])
        for histogram, column in zip(self._phases, range(_READ, _TOTAL), strict=True):
            histogram.add_all(table[:, column])
        self._settle_batches(table)

    def _settle_batches(self, table: Array) -> None:
        sizes, places = np.unique(table[:, _BATCH_ROWS], return_inverse=True)
        leads = table[:, _LEADS]
        weights = (leads, table[:, _READ], table[:, _RUN] * leads, table[:, _WRITE])
        columns = [np.bincount(places, weights=weight).tolist() for weight in weights]
        for size, runs, read_ns, run_ns, write_ns in zip(sizes.tolist(), *columns, strict=True):
            batch = self._batch(size)
            if batch is not None:
                batch["pinion_batch_executions"] += runs
                batch["pinion_batch_compute_input_duration_us"] += read_ns / 1e3
                batch["pinion_batch_compute_infer_duration_us"] += run_ns / 1e3
                batch["pinion_batch_compute_output_duration_us"] += write_ns / 1e3

    def _batch(self, rows: int) -> dict[str, float] | None:
        """Sums of a batch size; None for further ones, since callers choose sizes and each is a series for ever."""
        batch = self._batches.get(rows)
        if batch is None:
            if len(self._batches) >= _MOST_BATCH_SIZES:
                return None
            batch = self._batches[rows] = Counters(BATCH, {**self._labels, "batch_size": str(rows)})
        return batch.sums

    def flush(self) -> None:
        """Writes what is new to the shared series; what comes meanwhile makes it dirty again."""
        self.dirty = False
        if self._pending:
            self._settle()
        for part in (self._all, *self._failures.values(), *self._batches.values()):
            part.flush()
        for histogram in (self._requests, self._runs, *self._phases):
            histogram.flush()
        if self._last_ms:
            self._last.set(self._last_ms)
