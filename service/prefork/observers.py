"""What operators may have asked gunicorn to see of each request: access log, statsd, their own hooks.

None of it is asked for by default, and then it costs nothing.
"""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any


class Observers:
    """Calls gunicorn's logger and the hooks as its own workers do."""

    def __init__(self, worker: Any, *, logs: bool, before: bool, after: bool) -> None:
        self._worker = worker
        self._logs = logs
        self._has_before = before
        self._has_after = after

    def before(self, environ: dict[str, Any]) -> None:
        """Calls `pre_request`; its fault is logged and doesn't end the request."""
        if self._has_before:
            try:
                self._worker.cfg.pre_request(self._worker, _request(environ))
            except Exception:
                self._worker.log.exception("Exception in pre_request hook")

    def after(
        self, environ: dict[str, Any], status: str, headers: list[tuple[str, str]], body_bytes: int, arrival_ns: int
    ) -> None:
        """Writes the access log and calls `post_request`."""
        request = _request(environ)
        response = SimpleNamespace(
            status=status, status_code=int(status[:3]), headers=headers, sent=body_bytes, response_length=body_bytes
        )
        if self._logs:
            took = timedelta(microseconds=(time.perf_counter_ns() - arrival_ns) / 1e3)
            self._worker.log.access(response, request, environ, took)
        if self._has_after:
            try:
                self._worker.cfg.post_request(self._worker, request, environ, response)
            except Exception:
                self._worker.log.exception("Exception in post_request hook")


def observers(worker: Any) -> Observers | None:
    """Those that the configuration asks for; None where it asks for none."""
    cfg = worker.cfg
    logs = bool(
        cfg.accesslog
        or cfg.statsd_host
        or cfg.logconfig
        or cfg.logconfig_dict
        or cfg.logconfig_json
        or (cfg.syslog and not cfg.disable_redirect_access_to_syslog)
    )
    before, after = (
        cfg.settings[name].get() is not cfg.settings[name].default for name in ("pre_request", "post_request")
    )
    return Observers(worker, logs=logs, before=before, after=after) if logs or before or after else None


def _request(environ: dict[str, Any]) -> SimpleNamespace:
    """A request as gunicorn's hooks and log know it."""
    headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
    return SimpleNamespace(
        method=environ["REQUEST_METHOD"],
        uri=environ.get("RAW_URI", ""),
        path=environ["PATH_INFO"],
        query=environ.get("QUERY_STRING", ""),
        headers=headers,
        version=(1, 0) if environ["SERVER_PROTOCOL"] == "HTTP/1.0" else (1, 1),
    )
