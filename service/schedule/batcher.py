"""Tickets that wait for a model, and the turn in which they run together.

Nothing runs when a ticket is handed in. Whoever first asks for a result takes the turn and runs, for all that
wait and fit, in one call of the model; the others find their rows done. With threads one at a time computes in a
process, whatever the number of its threads, so that a lane is never fought over. No timer, no thread, and no waiting
unless the configuration asks for it: what arrived while the last run was on is the next batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from service.errors import DeadlinePassed
from service.schedule.merging import Merging
from service.tensors import Array

Run: TypeAlias = Callable[[Mapping[str, Array], Sequence[str]], list[Array]]
"""Runs a model: arrays by input name and names of the outputs wanted, to arrays in that order."""

_turn = threading.Lock()
_LOOK_NS = 200_000


class Ticket:
    """One request's place in a model's queue.

    Attributes:
        feeds: array by input name.
        outputs: names of the outputs wanted.
        rows: items in the request: the first dimension of a batched model's input, else 1.
        key: tickets with equal keys can run together; None for one that runs alone.
        submitted_ns: when it was handed in.
        started_ns: when its run began; 0 before.
        ended_ns: when its run was over; 0 before.
        batch_rows: rows of the run that it was part of.
        leads: whether it stands for its run in the count of executions.
    """

    __slots__ = (
        "_error",
        "_results",
        "batch_rows",
        "ended_ns",
        "feeds",
        "key",
        "leads",
        "outputs",
        "rows",
        "started_ns",
        "submitted_ns",
    )

    def __init__(self, feeds: Mapping[str, Array], outputs: Sequence[str], rows: int, key: Any) -> None:
        self.feeds = feeds
        self.outputs = outputs
        self.rows = rows
        self.key = key
        self.submitted_ns = time.perf_counter_ns()
        self.started_ns = 0
        self.ended_ns = 0
        self.batch_rows = rows
        self.leads = True
        self._results: list[Array] | None = None
        self._error: Exception | None = None

    def settle(self, results: list[Array], batch_rows: int, *, leads: bool) -> None:
        """Keeps its rows of a run."""
        self._results = results
        self.batch_rows = batch_rows
        self.leads = leads

    def fail(self, error: Exception) -> None:
        """Keeps what its run raised."""
        self._error = error

    def results(self) -> list[Array]:
        """The arrays of its outputs; raises what its run raised."""
        if self._error is not None:
            raise self._error
        if self._results is None:
            raise RuntimeError("the ticket has not run")
        return self._results


class Batcher:
    """The queue of one model version."""

    __slots__ = ("_patience_ns", "_queue", "_run", "_waiting", "merging")

    def __init__(self, run: Run, merging: Merging, timeout_s: float | None = None) -> None:
        """A queue that runs by `run`, merges as `merging` allows, and runs nothing that has waited for `timeout_s`."""
        self._run = run
        self._patience_ns = None if timeout_s is None else int(timeout_s * 1e9)
        self._waiting: list[Ticket] = []
        self._queue = threading.Lock()
        self.merging = merging

    def submit(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Ticket:
        """Takes a place in the queue."""
        ticket = Ticket(feeds, outputs, *self.merging.place(feeds, outputs))
        if ticket.key is not None:
            with self._queue:
                self._waiting.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Gives up a place whose caller has gone; False if the ticket has run or is part of the run that is on.

        A ticket that was given up can still be finished; it only waits for nobody any more.
        """
        if ticket.key is None:
            return not ticket.started_ns
        with self._queue:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
            return True

    def patience_ns(self, ticket: Ticket) -> int:
        """How long a ticket may still wait for others that would join it; 0 once its run is full, or over."""
        if ticket.key is None or ticket.ended_ns:
            return 0
        with self._queue:
            rows = sum(other.rows for other in self._waiting if other.key == ticket.key)
        if rows >= self.merging.limit_rows:
            return 0
        return max(0, ticket.submitted_ns + self.merging.delay_ns - time.perf_counter_ns())

    def finish(self, ticket: Ticket) -> list[Array]:
        """The results of a ticket, after its turn.

        Raises:
            ServiceError: what went wrong in its run.
        """
        if not ticket.ended_ns:
            while self.merging.delay_ns and (patience_ns := self.patience_ns(ticket)):
                time.sleep(min(patience_ns, _LOOK_NS) / 1e9)
            with _turn:
                if not ticket.ended_ns:
                    self._take_turn(ticket)
        return ticket.results()

    def _take_turn(self, ticket: Ticket) -> None:
        if self._patience_ns is not None and time.perf_counter_ns() - ticket.submitted_ns > self._patience_ns:
            self._give_up(ticket, self._patience_ns / 1e9)
            return
        if ticket.key is None:
            self._run_alone(ticket)
            return
        group = self._group(ticket)
        if len(group) == 1:
            self._run_alone(ticket)
        else:
            self._run_together(group)

    def _give_up(self, ticket: Ticket, timeout_s: float) -> None:
        self.withdraw(ticket)
        ticket.fail(DeadlinePassed(f"the request's run could not begin within the model's timeout_s of {timeout_s:g}"))
        ticket.started_ns = ticket.ended_ns = time.perf_counter_ns()

    def _group(self, ticket: Ticket) -> list[Ticket]:
        """The ticket and those behind it that may share its run, up to the limit of rows; they leave the queue."""
        limit = self.merging.limit_rows
        group, rest, rows = [ticket], [], ticket.rows
        with self._queue:
            for other in self._waiting:
                if other is ticket:
                    continue
                if other.key == ticket.key and rows + other.rows <= limit:
                    group.append(other)
                    rows += other.rows
                else:
                    rest.append(other)
            self._waiting = rest
        return group

    def _run_alone(self, ticket: Ticket) -> None:
        ticket.started_ns = time.perf_counter_ns()
        try:
            if ticket.key is not None and ticket.rows > self.merging.limit_rows:
                results = self._run_in_parts(ticket)
            else:
                results = self._run(ticket.feeds, ticket.outputs)
            ticket.settle(results, ticket.rows, leads=True)
        except Exception as error:  # noqa: BLE001 - kept for the caller it belongs to
            ticket.fail(error)
        ticket.ended_ns = time.perf_counter_ns()

    def _run_in_parts(self, ticket: Ticket) -> list[Array]:
        limit = self.merging.limit_rows
        parts = []
        for start in range(0, ticket.rows, limit):
            rows = min(limit, ticket.rows - start)
            feeds = {name: array[start : start + rows] for name, array in ticket.feeds.items()}
            parts.append(self._run(feeds, ticket.outputs))
            if not _have_rows(parts[-1], rows):
                return self._run(ticket.feeds, ticket.outputs)
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]

    def _run_together(self, group: list[Ticket]) -> None:
        started_ns = time.perf_counter_ns()
        try:
            results = self._run(self._joined(group), group[0].outputs)
        except Exception:  # noqa: BLE001 - one of them is at fault: each runs again, alone, and learns its own
            for ticket in group:
                self._run_alone(ticket)
            return
        if not self._share(group, results, started_ns, time.perf_counter_ns()):
            for ticket in group:
                self._run_alone(ticket)

    def _joined(self, group: list[Ticket]) -> dict[str, Array]:
        """What a run of a group is fed."""
        return {name: np.concatenate([t.feeds[name] for t in group]) for name in group[0].feeds}

    def _share(self, group: list[Ticket], results: list[Array], started_ns: int, ended_ns: int) -> bool:
        """Settles the tickets of a run, each with its rows; False if the run gave no row for each of theirs."""
        rows = sum(ticket.rows for ticket in group)
        if not _have_rows(results, rows):
            return False
        first = group[0]
        start = 0
        for ticket in group:
            stop = start + ticket.rows
            ticket.settle([result[start:stop] for result in results], rows, leads=ticket is first)
            ticket.started_ns, ticket.ended_ns = started_ns, ended_ns
            start = stop
        return True


def _have_rows(results: Sequence[Array], rows: int) -> bool:
    """Whether every output has a row for each row of the input; one whose length depends on the data need not."""
    return all(result.ndim and len(result) == rows for result in results)
