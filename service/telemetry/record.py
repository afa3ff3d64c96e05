"""Takes note of every inference that is over: sums for the metrics, a line for the journal."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from service.telemetry.journal import Journal
from service.telemetry.outcome import Figures, Outcome
from service.telemetry.series import STORE, Key
from service.telemetry.tally import Tally

_log = logging.getLogger(__name__)

_MOST_HISTOGRAMS = 200
_OTHER = ("other", "")
_UNWRITTEN_IDLE_NS = 20_000_000
_UNWRITTEN_BUSY_NS = 100_000_000
_STRAY = "pinion_requests_without_model"
_STRAY_TEXT = "Number of inference requests that named no model there is, by status"
_LOST = "pinion_audit_lines_lost"
_LOST_TEXT = "Number of lines that the audit lacks, since its disk was full for too long"


def _nobody(*, owes: bool) -> None:
    """Stands for the board where nobody else reads what this process counts."""


class Recorder:
    """The book of one process.

    By default it writes after every request. A worker that calls `flush` itself turns that off with `gather`, so
    that the requests of a turn are written together. Counters are kept for every model version; the histograms of
    those beyond the first 200 are one, called `other`.

    Attributes:
        keeps_lines: whether successes need an outcome, for their line in the journal.
    """

    def __init__(
        self,
        journal: Journal,
        on_owing: Callable[..., None] = _nobody,
        audit: Callable[[Outcome], None] | None = None,
    ) -> None:
        """A book without entries.

        Args:
            journal: gets lines.
            on_owing: told by `owes` that something waits to be written, or nothing does.
            audit: told every outcome.
        """
        self._journal = journal
        self._audit = audit
        self.keeps_lines = journal.every_request or audit is not None
        self._lock = threading.Lock()
        self._tallies: dict[tuple[str, str], Tally] = {}
        # What a parent had not written yet is the parent's to write.
        os.register_at_fork(after_in_child=self._tallies.clear)
        self._gathers = False
        self._on_owing, self._owes = on_owing, False
        self._written_ns = 0
        self._complained = False

    def gather(self) -> None:
        """Leaves the writing to `flush`."""
        self._gathers = True

    def succeed(self, key: tuple[str, str], figures: Figures) -> None:
        """Takes note of a request that was answered, where nothing but figures is kept; `key`: model and version."""
        tally = self._tallies.get(key) or self._tally(*key)
        if self._gathers:
            if not self._owes:
                self._owe()
            tally.succeed(figures)
            return
        with self._lock:
            tally.succeed(figures)
            self._write(tally)

    def record(self, outcome: Outcome) -> None:
        """Takes note of one request; a fault here is logged once and never reaches the request."""
        self._journal.note(outcome)
        if self._audit is not None:
            self._audit(outcome)
        if outcome.model is None or outcome.version is None:
            self._stray(outcome.status)
        elif outcome.error is None:
            self.succeed((outcome.model, outcome.version), outcome.timing)
        else:
            with self._lock:
                tally = self._tally(outcome.model, outcome.version)
                tally.fail(outcome)
                if self._gathers:
                    self._owe()
                else:
                    self._write(tally)

    def flush(self) -> None:
        """Writes what has gathered."""
        with self._lock:
            self._written_ns = time.perf_counter_ns()
            for tally in tuple(self._tallies.values()):
                if tally.dirty:
                    self._write(tally)
            if self._owes:
                self._owes = False
                self._on_owing(owes=False)
            # What the loop counted while the watchdog wrote.
            if any(tally.dirty for tally in tuple(self._tallies.values())):
                self._owe()

    def _owe(self) -> None:
        # Said before the answer leaves: who has read it and asks another worker for its metrics finds it counted.
        self._owes = True
        self._on_owing(owes=True)

    def flush_due(self, *, idle: bool) -> bool:
        """Writes what has gathered if the last time is long enough ago; whether something is left to write.

        A write costs as much as many inferences: a worker that is idle for milliseconds at a time doesn't do it each
        time.
        """
        if time.perf_counter_ns() - self._written_ns >= (_UNWRITTEN_IDLE_NS if idle else _UNWRITTEN_BUSY_NS):
            self.flush()
            return False
        return self._owes

    def prepare(self, model: str, version: str) -> None:
        """Makes the series of a model before its first request needs them, which takes milliseconds."""
        with self._lock:
            self._tally(model, version)

    def _stray(self, status: int) -> None:
        try:
            STORE.value(Key("counter", _STRAY, _STRAY, ("status",), (str(status),), _STRAY_TEXT)).inc(1)
        except OSError as fault:
            self._complain(fault)

    def _write(self, tally: Tally) -> None:
        try:
            tally.flush()
        except OSError as fault:
            self._complain(fault)

    def _tally(self, model: str, version: str) -> Tally:
        key = (model, version)
        tally = self._tallies.get(key)
        if tally is None:
            histograms = key if len(self._tallies) < _MOST_HISTOGRAMS else _OTHER
            tally = self._tallies[key] = Tally(model, version, histograms)
        return tally

    def _complain(self, fault: OSError) -> None:
        if not self._complained:
            self._complained = True
            _log.error("metrics can't be written and will have gaps: %s", fault)


def lose(lines: int) -> None:
    """Counts lines of the audit that could not be kept."""
    try:
        STORE.value(Key("counter", _LOST, _LOST, (), (), _LOST_TEXT)).inc(lines)
    except OSError as fault:
        _log.debug("the metric of lost lines can't be written either: %s", fault)
