"""One JSON line a request: failures always, every request when asked for."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import orjson

from service.telemetry.outcome import Outcome

_ERROR_STATUS = 400
_LONGEST_PATH = 200
_LONGEST_METHOD = 20


class Journal:
    """Writes lines to a file descriptor, each in one call.

    A line is shorter than the 4096 bytes that Linux writes to a pipe at once, so those of several processes never mix.

    Attributes:
        every_request: whether successes have a line as well.
    """

    def __init__(self, *, every_request: bool, fd: int = 2) -> None:
        self.every_request = every_request
        self._fd = fd

    def note(self, outcome: Outcome) -> None:
        """Writes the line of one request, if it is to have one; a full disk never fails a request."""
        if outcome.status < _ERROR_STATUS and not self.every_request:
            return
        try:
            os.write(self._fd, line(outcome))
        except OSError:
            return


def line(outcome: Outcome) -> bytes:
    """The line of one request, with its break; JSON leaves no control character in it."""
    now = datetime.fromtimestamp(time.time(), UTC)
    return orjson.dumps(
        {
            "time": now.isoformat(timespec="milliseconds"),
            "level": "info" if outcome.status < _ERROR_STATUS else "warning" if outcome.status < 500 else "error",  # noqa: PLR2004 - HTTP's classes
            "event": "request",
            "request_id": outcome.request_id,
            **({} if outcome.key is None else {"key": outcome.key}),
            "client": outcome.client,
            "method": outcome.method[:_LONGEST_METHOD],
            "path": outcome.path_text(_LONGEST_PATH),
            "status": outcome.status,
            # A file's name may be no UTF-8.
            "model": outcome.model and outcome.model.encode("utf-8", "replace").decode(),
            "version": outcome.version,
            "error": outcome.error,
            "batch": outcome.timing.batch_rows,
            "queue_ms": round(outcome.timing.queue_ns / 1e6, 3),
            "run_ms": round(outcome.timing.run_ns / 1e6, 3),
            "total_ms": round(outcome.timing.total_ns / 1e6, 3),
            "bytes_in": outcome.bytes_in,
            "bytes_out": outcome.bytes_out,
            "pid": os.getpid(),
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )
