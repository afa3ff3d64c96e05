"""Requests in, answers out: everything that happens on the connections of one worker."""

from __future__ import annotations

import math
import select
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from service.prefork.balance import Balance
from service.prefork.chunks import ChunkedBody
from service.prefork.connection import BODY, CLOSED, HEAD, IDLE, IN_HAND, LINGER, Connection, Input
from service.prefork.head import HeadParser
from service.prefork.observers import observers
from service.prefork.outbox import Outbox
from service.prefork.refusals import Refusal
from service.prefork.response import HeadWriter, InvalidResponse, has_body, refusal
from service.prefork.worker_settings import WorkerSettings

_READ_BYTES = 262_144
_SLOWEST_BODY_BYTES_A_S = 16_384
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_END_OF_HEAD = b"\r\n\r\n"


class Exchange:
    """The connections of a worker and the requests in hand.

    Attributes:
        connections: open ones by file number.
        gathered: requests handed to the application whose answers have not been asked for.
        waiting: those of them that are being answered, one after the other.
        balance: the other workers; None where there are none.
        now_s: monotonic time of this turn.
        arrival_ns: performance counter of this turn, in every environ.
        closing: whether answers say `Connection: close`.
        lock: held by the loop except while a model runs.
        run_began_s: monotonic time at which the run that is on began; 0 while there is none.
        stands_in: whether the watchdog acts for the loop.
        finished: connections whose answers were computed aside.
        take_aside: hands a request to the watchdog.
    """

    def __init__(self, worker: Any, settings: WorkerSettings, poller: select.epoll) -> None:
        self._worker = worker
        self._wsgi = worker.wsgi
        self._settings = settings
        self._poller = poller
        self._parser = HeadParser(worker.cfg)
        self._writer = HeadWriter("gunicorn")
        self._outbox = Outbox(self, settings.max_unsent_bytes, settings.write_timeout_s)
        self._flush_records = getattr(worker.wsgi, "pinion_flush", None)
        if self._flush_records is not None:
            worker.wsgi.pinion_gather()
        self._observers = observers(worker)
        self._deferred: tuple[type, ...] = tuple(getattr(worker.wsgi, "pinion_deferred", ()))
        self._aside: frozenset[str] = getattr(worker.wsgi, "pinion_aside", frozenset())
        self.take_aside: Callable[[Connection, dict[str, Any]], None] = self._no_watchdog
        self.lock = threading.Lock()
        self.run_began_s = 0.0
        self.stands_in = False
        self.finished: deque[tuple[Connection, list[bytes] | None]] = deque()
        self.connections: dict[int, Connection] = {}
        self.gathered: deque[tuple[Connection, Iterable[bytes]]] = deque()
        self.waiting: deque[tuple[Connection, Iterable[bytes]]] = deque()
        self.now_s = 0.0
        self.arrival_ns = 0
        self.closing = False
        self.balance: Balance | None = None

    def _no_watchdog(self, connection: Connection, environ: dict[str, Any]) -> None:
        self.finished.append((connection, self.computed(connection, environ)))

    def take_over(self, connection: Connection, data: bytes) -> None:
        """Takes in a connection that another worker has read from."""
        self._watch_new(connection)
        self._parse(connection, data)

    def admit(self, connection: Connection) -> None:
        """Takes in a new connection; its request is often there already."""
        self._watch_new(connection)
        self.receive(connection)

    def _watch_new(self, connection: Connection) -> None:
        self.connections[connection.fd] = connection
        if self.balance is not None:
            self.balance.connections(len(self.connections))
        connection.interest = select.EPOLLIN
        self._poller.register(connection.fd, select.EPOLLIN)

    def receive(self, connection: Connection) -> None:
        """Reads what has come; hands the request to the application once it is whole."""
        if connection.body is not None:
            self._receive_body(connection)
            return
        if connection.state == IN_HAND:
            return
        try:
            data = connection.sock.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, InterruptedError):
            return
        except ssl.SSLWantWriteError:
            self.watch(connection, select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            data = b""
        if not data:
            self._client_closed(connection)
        elif connection.state == LINGER:
            return
        elif connection.chunked is not None:
            self._feed_chunks(connection, data)
        else:
            self._parse(connection, connection.received + data if connection.received else data)

    def _client_closed(self, connection: Connection) -> None:
        """An end of the stream: in the middle of a request nothing can be answered any more."""
        self.close(connection)

    def _parse(self, connection: Connection, data: bytes) -> None:
        if connection.state == IDLE:
            connection.state = HEAD
            connection.began_s = self.now_s
            connection.deadline_s = self.now_s + self._settings.head_timeout_s
        end = data.find(_END_OF_HEAD, connection.scanned)
        try:
            if end < 0:
                self._parser.check_partial(data, connection.scanned)
                connection.received = data
                connection.scanned = max(len(data) - 3, 0)
                return
            head = self._parser.parse(data, end + 4, connection.peer, connection.listener)
            connection.scanned = 0
            self._after_head(connection, head, data, end + 4)
        except Refusal as fault:
            self.refuse(connection, fault.status, fault.sentence)

    def _after_head(self, connection: Connection, head: Any, data: bytes, start: int) -> None:
        connection.head = head
        connection.keep_alive = head.keep_alive and not self.closing
        if head.chunked:
            connection.chunked = ChunkedBody(self._settings.max_body_bytes)
            connection.received = b""
            self._await_body(connection)
            self._feed_chunks(connection, data[start:])
            return
        length = head.body_length or 0
        if length > self._settings.max_body_bytes:
            limit = self._settings.max_body_bytes
            sentence = f"the body is larger than the limit of {limit} bytes (PINION_MAX_BODY_BYTES)"
            raise Refusal(413, sentence)
        stop = start + length
        if len(data) >= stop:
            connection.received = data[stop:] if len(data) > stop else b""
            # Only a request that stands alone can be handed to another worker.
            connection.request = data if len(data) == stop and self.balance is not None else b""
            self._hand_over(connection, data[start:stop])
            return
        body = connection.body = bytearray(length)
        connection.filled = len(data) - start
        body[: connection.filled] = data[start:]
        connection.received = b""
        self._await_body(connection)

    def _await_body(self, connection: Connection) -> None:
        connection.state = BODY
        connection.deadline_s = self.now_s + self._settings.body_timeout_s
        if connection.head.expect_continue:
            self._outbox.send_now(connection, _CONTINUE)

    def _receive_body(self, connection: Connection) -> None:
        body = connection.body
        if body is None:
            return
        try:
            count = connection.sock.recv_into(memoryview(body)[connection.filled :])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self._client_closed(connection)
            return
        connection.filled += count
        connection.deadline_s += count / _SLOWEST_BODY_BYTES_A_S
        if connection.filled == len(body):
            connection.body = None
            self._hand_over(connection, body)

    def _feed_chunks(self, connection: Connection, data: bytes) -> None:
        connection.deadline_s += len(data) / _SLOWEST_BODY_BYTES_A_S
        try:
            done = connection.chunked.feed(data)
        except Refusal as fault:
            self.refuse(connection, fault.status, fault.sentence)
            return
        if done:
            decoder, connection.chunked = connection.chunked, None
            connection.received = decoder.rest
            self._hand_over(connection, decoder.body)

    def _hand_over(self, connection: Connection, body: bytes | bytearray) -> None:
        """Gives the request to the application; its answer is asked for when everyone's request is in."""
        connection.state = IN_HAND
        connection.status = None
        environ = connection.head.environ
        environ["wsgi.input"] = Input(body)
        environ["pinion.body"] = body
        environ["pinion.arrival_ns"] = self.arrival_ns
        if self._observers is not None:
            self._observers.before(environ)
        if environ["PATH_INFO"] in self._aside:
            connection.deadline_s = math.inf
            self.watch(connection, 0)
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
        count = len(todo)
        while todo:
            self._answer(*todo.popleft())
        if count and self._flush_records is not None:
            self._flush_records(idle=False)
        return count

    def hand_over_waiting(self) -> None:
        """Gives requests that would have to wait to workers that are idle; the lock is held, a run is on."""
        balance = self.balance
        for waiting in (self.waiting, self.gathered):
            while balance is not None and waiting:
                connection, answer = waiting[-1]
                peer = balance.idle_peer() if self._may_leave(connection, answer) else None
                index = connection.listener.index
                if peer is None or not balance.hand_over(peer, connection.sock, index, connection.request):
                    return
                waiting.pop()
                _closed(answer)
                self.close(connection)

    def _may_leave(self, connection: Connection, answer: Iterable[bytes]) -> bool:
        return isinstance(answer, self._deferred) and bool(connection.request) and connection.listener.tls is None

    def idle(self) -> None:
        """Told before the loop sleeps."""
        if self._flush_records is not None:
            self._flush_records(idle=True)

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

    def _answer(self, connection: Connection, answer: Iterable[bytes]) -> None:
        if connection.state != IN_HAND:
            return
        try:
            if isinstance(answer, self._deferred) and not self.stands_in:
                parts = self._run(answer)
            else:
                parts = _collected(answer)
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._log_failure(connection.head, fault)
            self._fail(connection)
            return
        self._send(connection, parts)

    def _run(self, answer: Iterable[bytes]) -> list[bytes]:
        """An answer that may run a model: meanwhile the watchdog may stand in."""
        if self.balance is not None:
            self.balance.runs(on=True)
        self.run_began_s = time.monotonic()
        self.lock.release()
        try:
            return _collected(answer)
        finally:
            self.lock.acquire()
            self.run_began_s = 0.0
            if self.balance is not None:
                self.balance.runs(on=False)

    def _send(self, connection: Connection, parts: list[bytes]) -> None:
        self._worker.nr += 1
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if connection.written:
            body = b"".join([*connection.written, body])
            connection.written = []
        self._keep_alive(connection)
        environ = connection.head.environ
        try:
            text = self._writer.head(connection, len(body), keep_alive=connection.keep_alive)
        except InvalidResponse as fault:
            self._log_failure(connection.head, fault)
            self._fail(connection)
            return
        if environ["REQUEST_METHOD"] == "HEAD" or not has_body(connection.status or ""):
            body = b""
        if self._observers is not None:
            self._observers.after(environ, connection.status or "", connection.headers, len(body), self.arrival_ns)
        self._outbox.send(connection, text, body)

    def _fail(self, connection: Connection) -> None:
        connection.written = []
        self.refuse(connection, 500, "internal error; the log has the reason", "internal-error")

    def _log_failure(self, head: Any, fault: Exception) -> None:
        traceback = None if isinstance(fault, InvalidResponse) else fault
        self._worker.log.error("Error handling request %s: %s", head.environ.get("RAW_URI"), fault, exc_info=traceback)

    def _keep_alive(self, connection: Connection) -> None:
        if self.closing or self._worker.nr >= self._worker.max_requests:
            connection.keep_alive = False
        elif connection.keep_alive:
            for name, value in connection.headers:
                if name.lower() == "connection" and value.lower().strip() == "close":
                    connection.keep_alive = False

    def sent(self, connection: Connection) -> None:
        """An answer has left whole: the next request of the connection, or its end."""
        if not connection.keep_alive:
            self.close(connection)
            return
        connection.head = None
        connection.state = IDLE
        connection.deadline_s = self.now_s + self._settings.idle_timeout_s
        self.watch(connection, select.EPOLLIN)
        if connection.received:
            data, connection.received = connection.received, b""
            self._parse(connection, data)

    def flush(self, connection: Connection, event: int) -> None:
        """Goes on sending; a client that hung up gets nothing more."""
        if event & (select.EPOLLERR | select.EPOLLHUP) and not event & select.EPOLLOUT:
            self.close(connection)
        else:
            self._outbox.flush(connection)

    def refuse(self, connection: Connection, status: int, sentence: str, slug: str = "invalid-request") -> None:
        """Answers below the application and closes; what the client is still sending is read away first."""
        connection.keep_alive = False
        connection.body = connection.chunked = None
        connection.received = b""
        self._outbox.send_last(connection, refusal(status, sentence, slug))

    def expire(self, connection: Connection) -> None:
        """A deadline has passed: an idle connection closes, a stalled request is told so."""
        if connection.state in (HEAD, BODY) and connection.began_s:
            what = "head" if connection.state == HEAD else "body"
            self.refuse(
                connection,
                408,
                f"the client stopped sending before the request's {what} was complete",
                "client-stalled",
            )
        else:
            self.close(connection)

    def close_idle(self) -> None:
        """Closes every connection on which no request has begun."""
        for connection in [c for c in self.connections.values() if c.state == IDLE]:
            self.close(connection)

    def watch(self, connection: Connection, interest: int) -> None:
        """Changes what the poll looks for."""
        if connection.interest != interest:
            connection.interest = interest
            self._poller.modify(connection.fd, interest)

    def close(self, connection: Connection) -> None:
        """Ends a connection."""
        if connection.state == CLOSED:
            return
        connection.state = CLOSED
        self._outbox.forget(connection)
        del self.connections[connection.fd]
        if self.balance is not None:
            self.balance.connections(len(self.connections))
        try:
            self._poller.unregister(connection.fd)
        except OSError:
            self._worker.log.debug("connection %d was gone from the poll", connection.fd)
        connection.sock.close()


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
