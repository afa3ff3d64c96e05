"""The one other thread of a worker: it stands in for the loop while a run is long, and does what would hold it up.

ONNX Runtime lets go of the interpreter while it runs, but the loop is inside that run. So once a run has lasted a
few milliseconds this thread takes in what arrives and answers what isn't an inference: health and metrics stay
prompt on the one port that a platform probes. Inferences that it takes in wait for the loop.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any

from service.prefork.connection import Connection

_TICK_S = 0.02
_LONG_RUN_S = 0.005
_WAIT_S = 0.001
_FIT_S = 1.0


class Watchdog(threading.Thread):
    """Started by the loop; ends with the process."""

    def __init__(self, worker: Any) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._worker = worker
        self._answers = worker.exchange.answers
        self._jobs: deque[tuple[Connection, dict[str, Any]]] = deque()
        self._called = threading.Event()
        self._fit = getattr(worker.wsgi, "pinion_fit", None)

    def take(self, connection: Connection, environ: dict[str, Any]) -> None:
        """Answers a request aside, since computing it takes long."""
        self._jobs.append((connection, environ))
        self._called.set()

    def run(self) -> None:
        """Looks up every 20 ms, or when called."""
        fitted_s = time.monotonic()
        while True:
            if self._fit is not None and time.monotonic() - fitted_s > _FIT_S:
                fitted_s = time.monotonic()
                self._fit()
            self._called.wait(_TICK_S)
            self._called.clear()
            while self._jobs:
                self._answer(*self._jobs.popleft())
            began_s = self._answers.run_began_s
            if began_s and time.monotonic() - began_s > _LONG_RUN_S:
                self._stand_in(began_s)

    def _stand_in(self, began_s: float) -> None:
        """Serves until that run is over."""
        while self._answers.run_began_s == began_s and not self._jobs:
            events = self._worker.poller.poll(_WAIT_S)
            with self._answers.lock:
                if self._answers.run_began_s != began_s:
                    return
                self._answers.stands_in = True
                try:
                    self._worker.serve(events)
                    self._answers.hand_over_waiting()
                    self._worker.beat_and_sweep(long_run=True)
                finally:
                    self._answers.stands_in = False

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
