"""What gunicorn would take and this service can't work with: hooks that are gone, no workers, a drain cut short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HOOKS = (
    "nworkers_changed",
    "on_starting",
    "when_ready",
    "on_reload",
    "pre_fork",
    "post_fork",
    "post_worker_init",
    "worker_int",
    "worker_exit",
    "child_exit",
    "pre_exec",
)
_LINES = {**{name: f"hooks.{name}" for name in HOOKS}, "when_ready": "hooks.listen", "on_reload": "hooks.listen"}
_OWN_WORKER = "service.prefork.worker.GatherWorker"
_STOCK_WORKERS = ("sync", "gthread")
_GRACEFUL_TIMEOUT_S = 30.0


def missing_hooks(conf: Mapping[str, Any]) -> list[str]:
    """A sentence for each hook that a configuration file leaves to gunicorn's default, which does nothing.

    Args:
        conf: what the file sets; nothing where it can't be read or isn't there.
    """
    return [
        f"gunicorn.conf.py: {name} is not set; workers can't be given their cores, or end, without it: put back the "
        f"line `{name} = {_LINES[name]}`, or call that function in your own"
        for name in HOOKS
        if conf and name not in conf
    ]


def impossible(values: Mapping[str, Any], drain_s: float) -> list[str]:
    """A sentence for each value that can't work here.

    Args:
        values: gunicorn's settings by name, as far as they are set.
        drain_s: how long a worker goes on accepting after SIGTERM.
    """
    problems = []
    workers = values.get("workers")
    if workers is not None and workers < 1:
        problems.append(f"workers: expected 1 or more, got {workers}; nobody would answer")
    worker_class = values.get("worker_class", _OWN_WORKER)
    if isinstance(worker_class, str) and worker_class not in (_OWN_WORKER, *_STOCK_WORKERS):
        expected = ", ".join((_OWN_WORKER, *_STOCK_WORKERS))
        problems.append(f"worker_class: expected one of {expected}, got {worker_class!r}")
    graceful_s = values.get("graceful_timeout", _GRACEFUL_TIMEOUT_S)
    if drain_s and drain_s >= graceful_s:
        problems.append(
            f"PINION_DRAIN_S is {drain_s:g}, expected less than gunicorn's `graceful_timeout` of {graceful_s:g}: the "
            "workers would be killed while they drain"
        )
    return problems
