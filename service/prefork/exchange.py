"""The connections of one worker: what arrives on them, and how they end."""

from __future__ import annotations

import select
import ssl
from collections import deque
from typing import Any

from service.prefork.answers import Answers
from service.prefork.balance import LARGEST_BYTES, Balance
from service.prefork.chunks import ChunkedBody
from service.prefork.connection import BODY, CLOSED, HEAD, IDLE, IN_HAND, LINGER, Connection
from service.prefork.framing import Head
from service.prefork.head import HeadParser
from service.prefork.outbox import Outbox
from service.prefork.refusals import Refusal
from service.prefork.response import refusal
from service.prefork.worker_settings import WorkerSettings

_READ_BYTES = 262_144
_SLOWEST_BODY_BYTES_A_S = 16_384
_LARGEST_KEPT_HEAD_BYTES, _FIRST_BODY_BYTES = 4096, 65_536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_END_OF_HEAD = b"\r\n\r\n"


class Exchange:
    """The open connections.

    Attributes:
        connections: by file number.
        answers: the requests in hand.
        outbox: what clients have not taken yet.
        balance: the other workers; None where there are none.
        now_s: monotonic time of this turn.
        arrival_ns: performance counter of this turn, in every environ.
        closing: whether answers say `Connection: close`.
    """

    def __init__(self, worker: Any, settings: WorkerSettings, poller: select.epoll) -> None:
        self._worker = worker
        self._settings = settings
        self._poller = poller
        self._parser = HeadParser(worker.cfg)
        # One buffer for all reads: a new one each time costs the allocator more than many requests cost us.
        self._view = memoryview(bytearray(_READ_BYTES))
        self.connections: dict[int, Connection] = {}
        self._following: deque[Connection] = deque()
        self.outbox = Outbox(self, settings.max_unsent_bytes, settings.write_timeout_s)
        self.answers = Answers(self, worker)
        self.balance: Balance | None = None
        self.now_s = 0.0
        self.arrival_ns = 0
        self.closing = False

    def take_over(self, connection: Connection, data: bytes) -> None:
        """Takes in a connection that another worker has had, with what it read."""
        self._watch_new(connection)
        if data:
            self.answers.prepay(on=True)
            try:
                self._parse(connection, data)
            finally:
                self.answers.prepay(on=False)
        else:
            self.receive(connection)

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
        self._receive(connection)
        if connection.listener.tls is not None:
            # What TLS has decrypted already doesn't show in the poll.
            while connection.state in (HEAD, BODY, LINGER) and _pending(connection):
                self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        if connection.body is not None:
            self._receive_body(connection)
            return
        if connection.state == IN_HAND:
            self._not_now(connection)
            return
        try:
            data = self._view[: connection.sock.recv_into(self._view)].tobytes()
        except (BlockingIOError, ssl.SSLWantReadError, InterruptedError):
            return
        except ssl.SSLWantWriteError:
            self.watch(connection, select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            data = b""
        if connection.interest != select.EPOLLIN:
            self.watch(connection, select.EPOLLIN)
        if not data:
            self._client_closed(connection)
        elif connection.state == LINGER:
            return
        elif connection.chunked is not None:
            self._feed_chunks(connection, data)
        else:
            self._parse(connection, connection.received + data if connection.received else data)

    def _not_now(self, connection: Connection) -> None:
        """More has come while a request is in hand: not looked at again before its answer, or the client is gone."""
        if connection.interest:
            self.watch(connection, 0)
        else:
            self.close(connection)

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
            connection.scanned = 0
            end += 4
            self._after_head(connection, self._head(connection, data[:end]), data, end)
        except Refusal as fault:
            self.refuse(connection, fault.status, fault.sentence)

    def _head(self, connection: Connection, text: bytes) -> Head:
        """The head that a text means; a client that keeps its connection usually sends the same again and again.

        Then nothing is read anew, and the environ, which the application's lane doesn't write, is shared.
        """
        if connection.lane is not None and text == connection.head_text:
            known: Head = connection.lane_head
            return known
        head = self._parser.parse(text, len(text), connection.peer, connection.listener)
        connection.lane = self.answers.lane(head)
        # Kept while the connection is idle, too: only what costs little.
        is_kept = connection.lane is not None and len(text) <= _LARGEST_KEPT_HEAD_BYTES
        connection.head_text, connection.lane_head = (text, head) if is_kept else (b"", None)
        return head

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
            alone = len(data) == stop <= LARGEST_BYTES and self.balance is not None
            connection.request = data if alone else b""
            self.answers.hand_in(connection, data[start:stop])
            return
        connection.filled = len(data) - start
        body = connection.body = bytearray(min(length, max(_FIRST_BODY_BYTES, connection.filled * 2)))
        body[: connection.filled] = data[start:]
        connection.received = b""
        self._await_body(connection)

    def _await_body(self, connection: Connection) -> None:
        connection.state = BODY
        connection.deadline_s = self.now_s + self._settings.body_timeout_s
        if connection.head.expect_continue:
            self.outbox.send_now(connection, _CONTINUE)

    def _receive_body(self, connection: Connection) -> None:
        body = connection.body
        if body is None:
            return
        try:
            if connection.filled == len(body):
                # Grows with what arrives: a client that only promises a body costs no memory.
                body.extend(bytes(min(len(body), connection.head.body_length - len(body))))
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
        if connection.filled == connection.head.body_length:
            connection.body = None
            self.answers.hand_in(connection, body)

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
            self.answers.hand_in(connection, decoder.body)

    def sent(self, connection: Connection) -> None:
        """An answer has left whole: the next request of the connection, or its end."""
        if not connection.keep_alive:
            self.close(connection)
            return
        connection.head = None
        if not connection.head_text:
            connection.lane = None
        connection.request = b""
        connection.state = IDLE
        connection.deadline_s = self.now_s + self._settings.idle_timeout_s
        self.watch(connection, select.EPOLLIN)
        if connection.received or _pending(connection):
            self._following.append(connection)

    def resume(self) -> None:
        """Goes on with the requests behind those that have been answered; in a loop, for there may be thousands."""
        while self._following:
            connection = self._following.popleft()
            if connection.state != IDLE:
                continue
            if connection.received:
                data, connection.received = connection.received, b""
                self._parse(connection, data)
            else:
                self.receive(connection)

    def flush(self, connection: Connection, event: int) -> None:
        """Goes on sending; a client that hung up gets nothing more."""
        if event & (select.EPOLLERR | select.EPOLLHUP) and not event & select.EPOLLOUT:
            self.close(connection)
        else:
            self.outbox.flush(connection)

    def refuse(self, connection: Connection, status: int, sentence: str, slug: str = "invalid-request") -> None:
        """Answers below the application and closes; what the client is still sending is read away first."""
        connection.keep_alive = False
        connection.body = connection.chunked = None
        connection.received = b""
        self.outbox.send_last(connection, refusal(status, sentence, slug))

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
        self.outbox.forget(connection)
        del self.connections[connection.fd]
        if self.balance is not None:
            self.balance.connections(len(self.connections))
        try:
            self._poller.unregister(connection.fd)
        except OSError:
            self._worker.log.debug("connection %d was gone from the poll", connection.fd)
        connection.sock.close()


def _pending(connection: Connection) -> bool:
    """Whether a TLS connection has decrypted bytes that nobody has read."""
    return isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending() > 0
