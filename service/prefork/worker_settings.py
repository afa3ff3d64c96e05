"""What the loop needs of gunicorn's and our own settings, resolved once a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.host import place
from service.settings import resolve


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Limits and times of one worker.

    Attributes:
        worker_connections: open connections at most.
        max_body_bytes: of a request's body.
        max_unsent_bytes: of all answers that clients haven't taken.
        head_timeout_s: for a whole head, from its first byte (or from the connection's start).
        body_timeout_s: for a body; longer while it arrives at a decent rate.
        idle_timeout_s: between requests of a connection.
        write_timeout_s: without the client taking a byte.
        drain_s: of accepting after SIGTERM.
        busy_poll_s: of polling after work, 0 for none.
        on_draining: told once when the worker is to stop.
    """

    worker_connections: int
    max_body_bytes: int
    max_unsent_bytes: int
    head_timeout_s: float
    body_timeout_s: float
    idle_timeout_s: float
    write_timeout_s: float
    drain_s: float
    busy_poll_s: float
    on_draining: Callable[[], None]

    @classmethod
    def of(cls, worker: Any) -> WorkerSettings:
        """Those of a worker that is about to run."""
        settings = resolve(os.environ).settings
        return cls(
            worker_connections=worker.cfg.worker_connections,
            max_body_bytes=settings.max_body_bytes,
            max_unsent_bytes=settings.max_unsent_bytes,
            head_timeout_s=settings.head_timeout_s,
            body_timeout_s=settings.body_timeout_s,
            idle_timeout_s=float(worker.cfg.keepalive),
            write_timeout_s=settings.write_timeout_s,
            drain_s=settings.drain_s,
            busy_poll_s=settings.busy_poll_us / 1e6,
            on_draining=place.drain,
        )
