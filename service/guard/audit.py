"""The book of who asked for what: a JSON line for every request but health, appended to one file by all workers.

Lines gather while a turn of the loop lasts and leave together, in one write to a file opened with `O_APPEND`, which
Linux does as a whole. A disk that is full holds up nobody: what can't be written waits in memory up to a bound,
what comes beyond it is counted, and when there is room again the book says itself how many lines it lacks.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

_log = logging.getLogger(__name__)

LONGEST_TEXT = 400
"""Of what a caller writes, a method or a path, a line has this many characters at most."""
_MOST_WAITING = 20_000
_AGAIN_S = 1.0


def _nobody(_: int) -> None:
    """Stands for the metrics where nobody counts."""


class Audit:
    """The book of one process. By default it writes line by line; a loop that calls `flush` itself calls `gather`."""

    def __init__(self, path: Path, on_lost: Callable[[int], None] = _nobody) -> None:
        """Opens nothing yet; `on_lost` is told how many more lines were lost."""
        self._path = path
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._gathers = False
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._fd = -1
        self._rest, self._rest_lines = b"", 0
        self._lost = 0
        self._retry_s = 0.0

    def gather(self) -> None:
        """Leaves the writing to `flush`."""
        self._gathers = True

    def note(self, event: str, **facts: Any) -> None:
        """Takes a line in; it never fails."""
        if len(self._lines) + self._rest_lines >= _MOST_WAITING:
            self._lost += 1
            self._on_lost(1)
            return
        self._lines.append(_line(event, facts))
        if not self._gathers:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered."""
        if (self._lines or self._rest) and (not self._retry_s or time.monotonic() >= self._retry_s):
            with self._lock:
                self._write()

    def look(self) -> None:
        """Opens the file anew if it has been moved away; called about once a second, not in the way of a request."""
        with self._lock:
            if self._fd < 0:
                return
            try:
                there, ours = os.stat(self._path), os.fstat(self._fd)  # noqa: PTH116 - beside fstat
                same = (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
            except OSError:
                same = False
            if not same:
                os.close(self._fd)
                self._fd = -1
        self.flush()

    def _write(self) -> None:
        parts = [self._rest] if self._rest else []
        if self._lost:
            parts.append(_line("gap", {"lost": self._lost}))
            self._lost = 0
        while self._lines:
            parts.append(self._lines.popleft())
            self._rest_lines += 1
        data, written = b"".join(parts), 0
        try:
            if self._fd < 0:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o600)
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError as fault:
            # A line that went in by half ends there, and is repeated as a whole.
            begun = data.rfind(b"\n", 0, written) + 1
            self._rest = (b"\n" if begun < written else b"") + data[begun:]
            self._complain(fault)
            return
        self._rest, self._rest_lines = b"", 0
        if self._retry_s:
            self._retry_s = 0.0
            _log.warning("the audit in %s is written again", self._path)

    def _complain(self, fault: OSError) -> None:
        if not self._retry_s:
            _log.error(
                "the audit can't be written to %s: %s; requests are answered on, %d lines of each worker wait for room "
                "and the others are only counted (pinion_audit_lines_lost)",
                self._path,
                fault.strerror,
                _MOST_WAITING,
            )
        self._retry_s = time.monotonic() + _AGAIN_S


class _Clock:
    """The time in text; the part that is the same for a second is made once."""

    second, text = -1, ""


def _now() -> str:
    now_ms = time.time_ns() // 1_000_000
    second, ms = divmod(now_ms, 1000)
    if second != _Clock.second:
        _Clock.text, _Clock.second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)), second
    return f"{_Clock.text}.{ms:03d}+00:00"


def _line(event: str, facts: dict[str, Any]) -> bytes:
    members = {"time": _now(), "event": event, "pid": os.getpid(), **facts}
    try:
        return orjson.dumps(members, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A text that is no UTF-8.
        return orjson.dumps({name: _text(value) for name, value in members.items()}, option=orjson.OPT_APPEND_NEWLINE)


def _text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
