"""The requests of one worker that are in hand: given to the application, answered, sent.

Every request of a turn is handed in before the first answer is asked for, so that one run of a model answers what
arrived together.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from service.prefork.connection import IN_HAND, Connection, Input
from service.prefork.observers import observers
from service.prefork.response import HeadWriter, InvalidResponse, has_body


class Answers:
    """Requests in hand.

    Attributes:
        gathered: handed to the application, their answers not asked for.
        waiting: those of them that are being answered, one after the other.
        finished: computed aside, not sent.
        lock: held by the loop except while a model runs.
        run_began_s: monotonic time at which the run that is on began; 0 while there is none.
        stands_in: whether the watchdog acts for the loop.
        flush_records: writes the application's book.
        flush_due: writes it now and then; whether something is left to write.
        prepay: tells that the next request has been let in by another worker.
        take_aside: hands a request to the watchdog.
        call_watchdog: tells it that a long run begins.
    """

    def __init__(self, exchange: Any, worker: Any) -> None:
        self._exchange = exchange
        self._worker = worker
        self._wsgi = worker.wsgi
        self._writer = HeadWriter("gunicorn")
        self._observers = observers(worker)
        self.flush_records: Callable[[], None] = getattr(worker.wsgi, "pinion_flush", _nobody)
        self.flush_due: Callable[..., bool] = getattr(worker.wsgi, "pinion_flush_due", _nothing)
        self.prepay: Callable[..., None] = getattr(worker.wsgi, "pinion_prepay", _no_fee)
        getattr(worker.wsgi, "pinion_gather", _nobody)()
        self._deferred: tuple[type[Any], ...] = tuple(getattr(worker.wsgi, "pinion_deferred", ()))
        self._aside: Callable[[str], Any] = getattr(worker.wsgi, "pinion_aside", _never)
        self._lane = None if self._observers is not None else getattr(worker.wsgi, "pinion_lane", None)
        self.take_aside: Callable[[Connection, dict[str, Any]], None] = self._no_watchdog
        self.call_watchdog: Callable[[], None] = _nobody
        self.gathered: deque[tuple[Connection, Any]] = deque()
        self.waiting: deque[tuple[Connection, Any]] = deque()
        self.finished: deque[tuple[Connection, list[bytes] | None]] = deque()
        self.lock = threading.Lock()
        self.run_began_s = 0.0
        self.stands_in = False

    def _no_watchdog(self, connection: Connection, environ: dict[str, Any]) -> None:
        self.finished.append((connection, self.computed(connection, environ)))

    def lane(self, head: Any) -> Callable[..., Any] | None:
        """How the application begins the answer to every request with this head, where it tells."""
        lane: Callable[..., Any] | None = None if self._lane is None else self._lane(head.environ)
        return lane

    def hand_in(self, connection: Connection, body: bytes | bytearray) -> None:
        """Gives the request to the application; its answer is asked for when everyone's request is in."""
        connection.state = IN_HAND
        connection.status = None
        # The client has done its part: no patience with it runs out while it waits for us.
        connection.deadline_s = math.inf
        if connection.lane is not None:
            self.gathered.append((connection, connection.lane(body, self._exchange.arrival_ns)))
            return
        environ = connection.head.environ
        environ["wsgi.input"] = Input(body)
        environ["pinion.body"] = body
        environ["pinion.arrival_ns"] = self._exchange.arrival_ns
        if self._observers is not None:
            self._observers.before(environ)
        if self._aside(environ["PATH_INFO"]):
            self.flush_records()
            self._exchange.watch(connection, 0)
            self.take_aside(connection, environ)
            return
        try:
            answer = self._wsgi(environ, connection.start_response)
        except Exception:  # the application's fault ends the request, not the worker
            self._worker.log.exception("Error handling request %s", environ.get("RAW_URI"))
            self._fail(connection)
            return
        if self.stands_in and not isinstance(answer, self._deferred):
            self._answer(connection, answer)
        else:
            self.gathered.append((connection, answer))

    def answer_gathered(self) -> int:
        """Asks for the answers of this turn and sends them; returns how many there were."""
        if self.finished:
            self.send_finished()
        todo, self.gathered = self.gathered, self.waiting
        self.waiting = todo
        count = 0
        while todo:
            connection, answer = todo.popleft()
            if getattr(answer, "delayed", False) and answer.may_wait:
                self.gathered.append((connection, answer))
                continue
            count += 1
            self._answer(connection, answer)
        balance = self._exchange.balance
        # With more in hand, the next long run follows at once: this worker doesn't look idle in between.
        if balance is not None and balance.in_long_run and not self.gathered:
            balance.long_run(on=False)
        if count:
            self.flush_due(idle=False)
        return count

    def hand_over_waiting(self) -> None:
        """Gives requests that would have to wait to workers that are idle; the lock is held, a run is on.

        The oldest go first. One that is part of the run, as others of its model may be, can't be withdrawn and stays.
        """
        balance = self._exchange.balance
        for waiting in (self.waiting, self.gathered):
            for entry in tuple(waiting):
                if balance is None or balance.idle_peer() is None:
                    return
                connection, answer = entry
                if not self._may_leave(connection, answer) or not answer.withdraw():
                    continue
                if self.hand_over(connection, connection.request):
                    waiting.remove(entry)
                    _closed(answer)

    def _may_leave(self, connection: Connection, answer: Any) -> bool:
        fits = connection.state == IN_HAND and connection.request and connection.listener.tls is None
        return bool(fits) and isinstance(answer, self._deferred)

    def hand_over(self, connection: Connection, data: bytes) -> bool:
        """Gives a connection, with what has been read from it, to a worker that is idle; False if none takes it."""
        balance = self._exchange.balance
        if balance is None or connection.listener.tls is not None:
            return False
        peer = balance.idle_peer()
        if peer is None or not balance.hand_over(peer, connection.sock, connection.listener.index, data):
            return False
        self._exchange.close(connection)
        return True

    def computed(self, connection: Connection, environ: dict[str, Any]) -> list[bytes] | None:
        """All parts of an answer, computed in whatever thread asks; None if the application failed."""
        try:
            answer = self._wsgi(environ, connection.start_response)
            return _collected(answer)
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._log_failure(connection.head, fault)
            return None

    def send_finished(self) -> None:
        """Sends what was computed aside."""
        while self.finished:
            connection, parts = self.finished.popleft()
            if connection.state != IN_HAND:
                continue
            if parts is None:
                self._fail(connection)
            else:
                self._send(connection, parts)

    def _answer(self, connection: Connection, answer: Any) -> None:
        if connection.state != IN_HAND:
            _closed(answer)
            return
        try:
            if self.stands_in or not isinstance(answer, self._deferred):
                parts = _collected(answer)
            else:
                finished = answer.finish() if answer.is_settled else self._run(connection, answer)
                connection.status, connection.headers, parts = finished
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._log_failure(connection.head, fault)
            self._fail(connection)
            return
        self._send(connection, parts)

    def _run(self, connection: Connection, answer: Any) -> Any:
        """The answer that has to run its model: meanwhile the watchdog may stand in."""
        balance, path = self._exchange.balance, connection.head.environ["PATH_INFO"]
        began_s = self.run_began_s = time.monotonic()
        if balance is not None and balance.expects_long(path):
            balance.long_run(on=True)
            self.call_watchdog()
        self.lock.release()
        try:
            return answer.finish()
        finally:
            self.lock.acquire()
            self.run_began_s = 0.0
            if balance is not None:
                balance.long_runs.learn(path, time.monotonic() - began_s)

    def _send(self, connection: Connection, parts: list[Any]) -> None:
        self._worker.nr += 1
        if connection.written:
            parts = [*connection.written, *parts]
            connection.written = []
        size_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if self._exchange.closing or self._worker.nr >= self._worker.max_requests:
            connection.keep_alive = False
        environ = connection.head.environ
        try:
            text = self._writer.head(connection, size_bytes)
        except InvalidResponse as fault:
            self._log_failure(connection.head, fault)
            self._fail(connection)
            return
        if environ["REQUEST_METHOD"] == "HEAD" or not has_body(connection.status or ""):
            parts, size_bytes = [], 0
        if self._observers is not None:
            self._observers.after(
                environ, connection.status or "", connection.headers, size_bytes, self._exchange.arrival_ns
            )
        self._exchange.outbox.send(connection, [text, *parts], len(text) + size_bytes)

    def _fail(self, connection: Connection) -> None:
        connection.written = []
        self._exchange.refuse(connection, 500, "internal error; the log has the reason", "internal-error")

    def _log_failure(self, head: Any, fault: Exception) -> None:
        traceback = None if isinstance(fault, InvalidResponse) else fault
        self._worker.log.error("Error handling request %s: %s", head.environ.get("RAW_URI"), fault, exc_info=traceback)


def _nobody() -> None:
    """Stands for what isn't there: the watchdog before it has started, an application's book."""


def _no_fee(*, on: bool) -> None:
    """Nobody counts requests."""


def _never(path: str) -> bool:  # noqa: ARG001 - as the application's own
    """No answer takes long to compute where the application says of none."""
    return False


def _nothing(*, idle: bool) -> bool:  # noqa: ARG001 - as the book's own
    """Nothing is left to write where there is no book."""
    return False


def _closed(answer: Iterable[bytes]) -> None:
    close = getattr(answer, "close", None)
    if close is not None:
        close()


def _collected(answer: Iterable[bytes]) -> list[bytes]:
    """All parts of a WSGI answer, which is closed whatever happens (PEP 3333)."""
    try:
        return list(answer)
    finally:
        _closed(answer)
