"""gunicorn's hooks, as `gunicorn.conf.py` names them; which process calls each one is said in its docstring."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from service.host import place
from service.prefork import conf_check, run_dir
from service.prefork.conf_rules import impossible, missing_hooks
from service.prefork.lanes import Lanes
from service.settings import resolve

_CLIENT_SILENCE_S = 10
_FIT_S = 1.0

LANES = Lanes()
"""The master's; made before the first fork, so that workers share its board."""


def nworkers_changed(server: Any, new: int, old: int | None) -> None:
    """Master: cuts the lanes for the new number and moves living workers. First called before `on_starting`."""
    if new > 0 and LANES.cut(new, server.WORKERS.values(), server.log) and old is not None:
        _log_plan(server.log)


def on_starting(server: Any) -> None:
    """Master: prints the plan, empties the run folder, warns of what can't work."""
    run_dir.settle(server)
    _warn(server)
    _log_plan(server.log)
    for reason in LANES.plan.reasons:
        server.log.info("Plan: %s", reason)


def listen(server: Any) -> None:
    """Master, `when_ready` and `on_reload`: a stock worker gives up on clients that send nothing for a while.

    Accepted sockets inherit the time; kept-alive connections wait in a poll and are not touched.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _CLIENT_SILENCE_S, 0))


def pre_fork(server: Any, worker: Any) -> None:
    """Master: gives the new worker its seat."""
    LANES.seat(worker, server.WORKERS.values())


def post_fork(server: Any, worker: Any) -> None:
    """Worker, first thing: pins itself, so that every thread that starts later inherits the mask."""
    LANES.sit(worker, server.pid, server.log)
    worker.early_signals = server.SIG_QUEUE


def post_worker_init(worker: Any) -> None:
    """Worker, the application is loaded: opens its sessions and says that it is ready."""
    _drain_on_sigterm()
    open_sessions = getattr(worker.wsgi, "pinion_open", None)
    if open_sessions is not None:
        open_sessions()
    trust = getattr(worker.wsgi, "pinion_trust", None)
    if trust is not None:
        trust(worker.cfg.forwarded_allow_ips)
    place.ready()
    fit = getattr(worker.wsgi, "pinion_fit", None)
    if fit is not None and not getattr(worker, "keeps_watch", False):
        threading.Thread(target=_keep_fitting, args=(fit,), name="fit", daemon=True).start()
    _obey_early_signals(worker)


def _keep_fitting(fit: Callable[[], None]) -> None:
    """For stock workers, which have no watchdog: sessions follow their lane when it is cut anew."""
    while True:
        time.sleep(_FIT_S)
        fit()


def worker_int(worker: Any) -> None:  # noqa: ARG001 - gunicorn checks the number of arguments
    """Worker, in the signal handler: it stops at once."""
    place.drain()


def worker_exit(server: Any, worker: Any) -> None:
    """Worker, at its end; in the master instead if it finds the process gone when it sends a signal."""
    if os.getpid() == server.pid:
        child_exit(server, worker)
    else:
        place.drain()


def child_exit(server: Any, worker: Any) -> None:
    """Master, after the worker is dead: its slot is free."""
    LANES.leave(worker)
    run_dir.forget_gauges(f"{server.pid}-{worker.seat.slot}")


def pre_exec(server: Any) -> None:
    """The process that becomes a second master (SIGUSR2): it goes on with the run folder."""
    run_dir.pass_on(server)


def _drain_on_sigterm() -> None:
    """Drains at SIGTERM, for which gunicorn has no hook; its own handler is called then."""
    stop = signal.getsignal(signal.SIGTERM)

    def drain_then_stop(number: int, frame: FrameType | None) -> None:
        place.drain()
        if callable(stop):
            stop(number, frame)

    signal.signal(signal.SIGTERM, drain_then_stop)
    signal.siginterrupt(signal.SIGTERM, False)


def _obey_early_signals(worker: Any) -> None:
    """Delivers the signals again that came between the fork and gunicorn's setting of the worker's handlers.

    Until then the worker has the master's handler, which puts them into a queue that nobody reads here. A worker
    told to stop so early would go on until `graceful_timeout` kills it.
    """
    while not worker.early_signals.empty():
        number = worker.early_signals.get_nowait()
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.raise_signal(number)


def _warn(server: Any) -> None:
    """What `python -m service check` would say of gunicorn's configuration."""
    path = Path(str(server.cfg.config).removeprefix("file:"))
    conf, problems = conf_check.read(path)
    values = {name: setting.get() for name, setting in server.cfg.settings.items()}
    problems += missing_hooks(conf) + impossible(values, resolve(os.environ).settings.drain_s)
    for problem in problems:
        server.log.warning("%s", problem)


def _log_plan(log: Any) -> None:
    for line in LANES.lines():
        log.info("%s", line)
    for warning in LANES.plan.warnings:
        log.warning("Plan: %s", warning)
