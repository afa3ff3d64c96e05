"""The gathering worker: it hands every request of a turn to the application before it asks for an answer.

What arrived while the last run was on is therefore answered by one run. The loop never blocks on a socket: a slow
client costs a buffer and has a deadline. Everything about one connection is in `exchange`; this file is the loop
and the life of the process.
"""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any

from gunicorn.workers.base import Worker

from service.errors import ConfigurationError
from service.host import place
from service.prefork.balance import Balance, run_folder
from service.prefork.connection import SENDING, Connection
from service.prefork.exchange import Exchange
from service.prefork.head_policy import HeadPolicy
from service.prefork.listeners import Listener, open_listeners
from service.prefork.parting import leave_idle, share_out
from service.prefork.polling import BusyPoll
from service.prefork.watchdog import Watchdog
from service.prefork.worker_settings import WorkerSettings

_BEAT_S = 1.0
_SWEEP_S = 0.5
_WRITE_S = _STOPPING_S = 0.02
_ACCEPTS_A_TURN = 64
_LEAVE_S, _PATIENCE_S = 0.001, 0.003


class GatherWorker(Worker):  # type: ignore[misc] # gunicorn is untyped
    """A gunicorn worker class: `service.prefork.worker.GatherWorker`."""

    keeps_watch = True
    _told_to_stop = False
    _stop_accepting_s = 0.0
    _stop_s = 0.0

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Master, before anything is forked: ends the start over a setting that this worker doesn't offer."""
        try:
            HeadPolicy.of(cfg)
        except ConfigurationError as fault:
            log.error("The configuration can't be used: %s", fault)  # noqa: TRY400 - a sentence for an operator
            raise SystemExit(1) from None

    def run(self) -> None:
        """The loop; returns when the worker has been told to stop and has finished what it had."""
        self._set_up()
        try:
            while self._goes_on():
                self._turn()
        finally:
            self._answers.flush_records()
            for connection in list(self.exchange.connections.values()):
                self.exchange.close(connection)
            if self.exchange.balance is not None:
                self.exchange.balance.close()

    def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ARG002 - a signal handler's signature
        """SIGTERM: drains first (readiness false, still accepting), then stops accepting, then ends."""
        self._told_to_stop = True

    def _set_up(self) -> None:
        self._settings = WorkerSettings.of(self)
        self.poller = select.epoll()
        self.poller.register(self.PIPE[0], select.EPOLLIN)
        self._listeners: dict[int, Listener] = open_listeners(self.sockets, self.cfg)
        self._all_listeners = tuple(self._listeners.values())
        self._accepting = False
        self._patient_until_s = 0.0
        self._paused_until_s = 0.0
        self.exchange = Exchange(self, self._settings, self.poller)
        self._answers = self.exchange.answers
        self._busy_poll = BusyPoll(self._settings.busy_poll_s)
        self._beaten_s = self._swept_s = 0.0
        self.exchange.balance = self._join_others()
        self._listen(on=True)
        self.exchange.answers.lock.acquire()
        watchdog = Watchdog(self)
        self.exchange.answers.take_aside = watchdog.take
        self.exchange.answers.call_watchdog = watchdog.call
        watchdog.start()

    def _join_others(self) -> Balance | None:
        here, folder = place.current(), run_folder()
        if here.board is None or here.slot is None or folder is None:
            return None
        try:
            balance = Balance(here.board, here.slot, folder, here.metrics_id.rpartition("-")[0])
        except OSError as fault:
            self.log.warning("connections can't be shared with other workers: %s", fault)
            return None
        self.poller.register(balance.inbox.fileno(), select.EPOLLIN)
        return balance

    def _goes_on(self) -> bool:
        if self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            return False
        if not self._stop_accepting_s:
            if self.nr >= self.max_requests:
                self.log.info("Autorestarting worker after current request.")
                self._begin_stop(0.0)
            elif self._told_to_stop:
                self._begin_stop(self._settings.drain_s)
            else:
                return True
        now_s = time.monotonic()
        if now_s >= self._stop_accepting_s and self._listeners:
            self._listen(on=False)
            self._listeners.clear()
            if self.exchange.balance is not None:
                self.exchange.balance.retire()
                self._take_over(self.exchange.balance)
        if not self._listeners:
            if not self._awaits_successor(now_s):
                leave_idle(self.exchange, self.poller, self._settings.head_timeout_s)
            return bool(self.exchange.connections) and now_s < self._stop_s
        return True

    def _awaits_successor(self, now_s: float) -> bool:
        """Whether a worker that will take the idle connections is just starting, as in a reload."""
        balance = self.exchange.balance
        return balance is not None and now_s < self._stop_s - _STOPPING_S and balance.is_succeeded()

    def _begin_stop(self, drain_s: float) -> None:
        self._stop_accepting_s = time.monotonic() + drain_s
        self._stop_s = self._stop_accepting_s + self.cfg.graceful_timeout
        self.exchange.closing = True
        self._settings.on_draining()

    def _turn(self) -> None:
        exchange = self.exchange
        self.serve(self._poll())
        began_s = exchange.now_s
        self._busy_poll.worked(began_s, exchange.answers.answer_gathered())
        exchange.resume()
        self.beat_and_sweep(long_run=False)

    def serve(self, events: list[tuple[int, int]]) -> None:
        """Takes in everything that has arrived; called by the loop, or by the watchdog while a run is long."""
        exchange = self.exchange
        exchange.now_s = time.monotonic()
        exchange.arrival_ns = time.perf_counter_ns()
        connections = exchange.connections
        for fd, event in events:
            connection = connections.get(fd)
            try:
                if connection is None:
                    self._special(fd)
                elif connection.state == SENDING:
                    exchange.flush(connection, event)
                else:
                    exchange.receive(connection)
            except Exception:  # a fault of ours on one connection must not end those of all others
                self.log.exception("connection %d is closed over a fault of the worker", fd)
                if connection is not None:
                    exchange.close(connection)
        exchange.resume()

    def beat_and_sweep(self, *, long_run: bool) -> None:
        """Looks at deadlines, and tells the master that the loop is alive; a run that is on must tell it itself."""
        now_s = self.exchange.now_s
        if not long_run and now_s - self._beaten_s > _BEAT_S:
            self._beaten_s = now_s
            self.notify()
        if now_s - self._swept_s > _SWEEP_S:
            self._swept_s = now_s
            self._sweep(now_s)
        if not self._accepting:
            self._resume_accepting()

    def _poll(self) -> list[tuple[int, int]]:
        """What can be read or written; waits only if nothing is in hand."""
        if self._answers.gathered or self._answers.finished:
            return self.poller.poll(0)
        if self._busy_poll.wanted():
            events = self.poller.poll(0)
            if events or self._busy_poll.wanted():
                return events
        unwritten = self._answers.flush_due(idle=True)
        patience_s = self._patience_s()
        return self.poller.poll(min(_WRITE_S, patience_s) if unwritten else patience_s)

    def _patience_s(self) -> float:
        if not self._accepting and self._listeners and self._paused_until_s > self.exchange.now_s:
            return _LEAVE_S
        if self._stop_accepting_s and self.exchange.connections:
            return _STOPPING_S
        return _SWEEP_S if self.exchange.connections or self._stop_accepting_s else _BEAT_S

    def _special(self, fd: int) -> None:
        listener = self._listeners.get(fd)
        if listener is not None:
            self._accept(listener)
        elif self.exchange.balance is not None and fd == self.exchange.balance.inbox.fileno():
            self._take_over(self.exchange.balance)
        elif fd == self.PIPE[0]:
            try:
                os.read(fd, 4096)
            except BlockingIOError:
                return

    def _take_over(self, balance: Balance) -> None:
        by_index = {listener.index: listener for listener in self._all_listeners}
        while (given := balance.receive()) is not None:
            try:
                peer = given.sock.getpeername()
            except OSError:
                given.sock.close()
                continue
            # After a reload with other addresses an index may be gone.
            connection = self._connection(given.sock, peer, by_index.get(given.listener, self._all_listeners[0]))
            if connection is not None:
                self.exchange.take_over(connection, given.data)

    def _accept(self, listener: Listener) -> None:
        exchange = self.exchange
        balance = exchange.balance
        for accepted in range(_ACCEPTS_A_TURN):
            if balance is not None and exchange.now_s > self._patient_until_s and balance.leaves_it():
                if accepted:
                    # Perhaps none waits; if one does, the next turn begins with it.
                    return
                # Left to the idle worker for a moment; if it is still there then, it is taken here.
                self._patient_until_s = exchange.now_s + _PATIENCE_S
                self._paused_until_s = exchange.now_s + _LEAVE_S
                self._listen(on=False)
                return
            if len(exchange.connections) >= self._settings.worker_connections:
                self._listen(on=False)
                return
            try:
                sock, peer = listener.sock.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as fault:
                self.log.warning("no connection can be accepted for a second: %s", fault)
                self._paused_until_s = exchange.now_s + 1.0
                self._listen(on=False)
                return
            self._patient_until_s = 0.0
            connection = self._connection(sock, peer, listener)
            if connection is not None:
                exchange.admit(connection)

    def _connection(self, sock: socket.socket, peer: Any, listener: Listener) -> Connection | None:
        """What is kept of a socket; None if its client has gone already, which TLS notices here."""
        try:
            sock.setblocking(False)
            if listener.is_tcp:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if listener.tls is not None:
                sock = listener.tls.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
                )
        except OSError:
            sock.close()
            return None
        return Connection(sock, peer, listener, self.exchange.now_s + self._settings.head_timeout_s)

    def _listen(self, *, on: bool) -> None:
        if on == self._accepting:
            return
        self._accepting = on
        for fd in self._listeners:
            if on:
                self.poller.register(fd, select.EPOLLIN)
            else:
                self.poller.unregister(fd)

    def _sweep(self, now_s: float) -> None:
        exchange = self.exchange
        if exchange.balance is not None:
            exchange.balance.refresh()
            share_out(exchange)
        exchange.outbox.let_go_of_runs()
        for connection in [c for c in exchange.connections.values() if c.deadline_s < now_s]:
            exchange.expire(connection)

    def _resume_accepting(self) -> None:
        if (
            not self._accepting
            and self._listeners
            and self.exchange.now_s >= self._paused_until_s
            and len(self.exchange.connections) < self._settings.worker_connections
        ):
            self._listen(on=True)
