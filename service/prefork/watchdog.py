"""The one other thread of a worker: it stands in for the loop while a run is long, and does what would hold it up.

ONNX Runtime lets go of the interpreter while it runs, but the loop is inside that run. So this thread takes in
what arrives meanwhile and answers what isn't an inference: health and metrics stay prompt on the one port that a
platform probes. Inferences go to a worker that is idle; if there is none they wait for the loop.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from typing import Any

from service.prefork.connection import IDLE, Connection

_TICK_S = 0.02
_LONG_RUN_S = 0.005
_WAIT_S, _DOZE_S = 0.001, 0.005
_FIT_S = 1.0


class Watchdog(threading.Thread):
    """Started by the loop; ends with the process."""

    def __init__(self, worker: Any) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._worker = worker
        self._exchange = worker.exchange
        self._answers = worker.exchange.answers
        self._jobs: deque[tuple[Connection, dict[str, Any]]] = deque()
        self._called = threading.Event()
        self._fit = getattr(worker.wsgi, "pinion_fit", None)

    def take(self, connection: Connection, environ: dict[str, Any]) -> None:
        """Answers a request aside, since computing it takes long."""
        self._jobs.append((connection, environ))
        self._called.set()

    def call(self) -> None:
        """Tells that a run begins which is expected to be long."""
        self._called.set()

    def run(self) -> None:
        """Looks up every 20 ms, or when called."""
        fitted_s = time.monotonic()
        while True:
            try:
                fitted_s = self._look(fitted_s)
            except Exception:
                self._worker.log.exception("the watchdog goes on after a fault")

    def _look(self, fitted_s: float) -> float:
        """One look; takes and gives back when the sessions were fitted last."""
        if self._fit is not None and time.monotonic() - fitted_s > _FIT_S:
            fitted_s = time.monotonic()
            self._fit()
        self._called.wait(_TICK_S)
        self._called.clear()
        while self._jobs:
            self._answer(*self._jobs.popleft())
        began_s = self._answers.run_began_s
        balance = self._exchange.balance
        foretold = balance is not None and balance.in_long_run
        if began_s and (foretold or time.monotonic() - began_s > _LONG_RUN_S):
            self._stand_in(began_s)
        return fitted_s

    def _stand_in(self, began_s: float) -> None:
        """Serves until that run is over; looks often only while something waits for a worker to fall idle."""
        answers = self._answers
        while answers.run_began_s == began_s and not self._jobs:
            waits = answers.waiting or answers.gathered
            events = self._worker.poller.poll(_WAIT_S if waits else _DOZE_S)
            # The loop keeps the lock while it sleeps: waiting for it without an end would hold up the jobs.
            if not answers.lock.acquire(timeout=_WAIT_S):
                continue
            try:
                if answers.run_began_s != began_s:
                    return
                self._serve(events)
            finally:
                answers.lock.release()

    def _serve(self, events: list[tuple[int, int]]) -> None:
        answers, balance = self._answers, self._exchange.balance
        answers.stands_in = True
        try:
            # What follows an answer that the loop sent just before this run is the oldest of what waits.
            self._exchange.resume()
            if balance is not None:
                balance.long_run(on=True)
                answers.hand_over_waiting()
                events = [event for event in events if not self._passed_on(*event)]
            self._worker.serve(events)
            answers.hand_over_waiting()
            self._worker.beat_and_sweep(long_run=True)
        finally:
            answers.stands_in = False

    def _passed_on(self, fd: int, event: int) -> bool:
        """Whether an idle worker has been given the connection on which a request begins, unread."""
        connection = self._exchange.connections.get(fd)
        if connection is None or connection.state != IDLE or connection.received or event != select.EPOLLIN:
            return False
        return bool(self._answers.hand_over(connection, b""))

    def _answer(self, connection: Connection, environ: dict[str, Any]) -> None:
        answers = self._answers
        answers.finished.append((connection, answers.computed(connection, environ)))
        if answers.run_began_s and answers.lock.acquire(timeout=_LONG_RUN_S):
            try:
                answers.send_finished()
            finally:
                answers.lock.release()
        else:
            os.write(self._worker.PIPE[1], b"1")
