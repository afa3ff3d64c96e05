"""Lines of the service's own loggers, in gunicorn's form and beside gunicorn's, one line each but for tracebacks."""

from __future__ import annotations

import logging

_FORM = "%(asctime)s [%(process)d] [%(levelname)s] %(message)s"
_DATE = "[%Y-%m-%d %H:%M:%S %z]"
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class OneLine(logging.Formatter):
    """Messages quote what callers send: no character of it may begin a line or steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line; a traceback follows below it."""
        return super().formatMessage(record).translate(_ESCAPES)


def set_up(level: str) -> None:
    """Sends what the service logs to stderr, once a process, unless the embedding program has its own way.

    Without it Python would drop every message below a warning.

    Args:
        level: the lowest that is written, `debug` to `critical`.
    """
    logger = logging.getLogger("service")
    logger.setLevel(level.upper())
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(_FORM, _DATE))
    logger.addHandler(handler)
