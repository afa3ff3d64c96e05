"""Bytes on their way to clients, bounded for the whole worker."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from service.prefork.connection import LINGER, SENDING, Connection

_SMALL_BYTES = 65_536
_MOST_PARTS = 256
_LINGER_S = 2.0
_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantWriteError, ssl.SSLWantReadError)


class Outbox:
    """Sends what a socket takes at once and keeps the rest, in `max_unsent_bytes` of memory over all connections."""

    def __init__(self, exchange: Any, max_unsent_bytes: int, write_timeout_s: float) -> None:
        self._exchange = exchange
        self._max_unsent_bytes = max_unsent_bytes
        self._write_timeout_s = write_timeout_s
        self._slow: dict[Connection, None] = {}
        self.kept_bytes = 0

    def send(self, connection: Connection, parts: list[bytes | memoryview], size_bytes: int) -> None:
        """Sends an answer, head and body together `size_bytes` long."""
        if size_bytes < _SMALL_BYTES or len(parts) > _MOST_PARTS:
            parts = [b"".join(parts)]
        try:
            sent = connection.sock.send(parts[0]) if len(parts) == 1 else _send_parts(connection.sock, parts)
        except _WOULD_BLOCK:
            sent = 0
        except OSError:
            self._exchange.close(connection)
            return
        if sent == size_bytes:
            self._exchange.sent(connection)
        else:
            self._keep(connection, [memoryview(part) for part in parts], sent)

    def send_now(self, connection: Connection, data: bytes) -> None:
        """Sends an interim answer; a client whose socket can't take 25 bytes does without it."""
        try:
            connection.sock.send(data)
        except OSError:
            return

    def send_last(self, connection: Connection, data: bytes) -> None:
        """Sends an answer after which nothing of the client is read as a request."""
        try:
            sent = connection.sock.send(data)
        except _WOULD_BLOCK:
            sent = 0
        except OSError:
            self._exchange.close(connection)
            return
        if sent < len(data):
            self._keep(connection, [memoryview(data)], sent)
            return
        self._linger(connection)

    def _linger(self, connection: Connection) -> None:
        """Waits until the client has read: closing over unread bytes would reset the connection (RFC 9112 9.6)."""
        connection.state = LINGER
        connection.deadline_s = self._exchange.now_s + _LINGER_S
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._exchange.close(connection)

    def _keep(self, connection: Connection, parts: list[memoryview], sent: int) -> None:
        rest = _rest(parts, sent)
        if not rest:
            self._exchange.sent(connection)
            return
        connection.state = SENDING
        connection.deadline_s = self._exchange.now_s + self._write_timeout_s
        self._hold(connection, rest)
        self._slow[connection] = None
        self._exchange.watch(connection, select.EPOLLOUT)
        self._bound(connection)

    def _hold(self, connection: Connection, parts: list[memoryview]) -> None:
        """Keeps parts, by a copy where they are the smaller part of what they would keep in memory: a run's results."""
        connection.unsent = [_own(part) for part in parts]
        kept_bytes = sum(map(_held_bytes, connection.unsent))
        self.kept_bytes += kept_bytes - connection.kept_bytes
        connection.kept_bytes = kept_bytes

    def _bound(self, newest: Connection) -> None:
        """Closes the slowest readers, those that have waited longest, until the rest fits."""
        while self.kept_bytes > self._max_unsent_bytes and len(self._slow) > 1:
            slowest = next(iter(self._slow))
            if slowest is newest:
                return
            self._exchange.close(slowest)

    def flush(self, connection: Connection) -> None:
        """Sends more of what is kept."""
        try:
            sent = _send_parts(connection.sock, connection.unsent)
        except _WOULD_BLOCK:
            return
        except OSError:
            self._exchange.close(connection)
            return
        connection.unsent = _rest(connection.unsent, sent)
        connection.deadline_s = self._exchange.now_s + self._write_timeout_s
        if connection.unsent:
            return
        self.forget(connection)
        if connection.keep_alive:
            self._exchange.sent(connection)
        else:
            self._exchange.watch(connection, select.EPOLLIN)
            self._linger(connection)

    def let_go_of_runs(self) -> None:
        """Copies what has become the smaller part of what it keeps in memory."""
        for connection in self._slow:
            self._hold(connection, connection.unsent)

    def forget(self, connection: Connection) -> None:
        """Drops what is kept for a connection that is closed."""
        self.kept_bytes -= connection.kept_bytes
        connection.unsent, connection.kept_bytes = [], 0
        self._slow.pop(connection, None)


def _send_parts(sock: socket.socket, parts: Sequence[bytes | memoryview]) -> int:
    if isinstance(sock, ssl.SSLSocket):
        return sock.send(parts[0]) if parts else 0
    return sock.sendmsg(parts)


def _own(part: memoryview) -> memoryview:
    return part if _held_bytes(part) <= 2 * part.nbytes + _SMALL_BYTES else memoryview(bytes(part))


def _held_bytes(part: memoryview) -> int:
    """What stays in memory for a part: the object that it was cut from, or what that one was cut from."""
    owner: Any = part.obj
    held_bytes = part.nbytes
    while owner is not None:
        size_bytes = len(owner) if isinstance(owner, (bytes, bytearray)) else getattr(owner, "nbytes", 0)
        held_bytes = max(held_bytes, size_bytes)
        owner = getattr(owner, "base", None)
    return held_bytes


def _rest(parts: list[memoryview], sent: int) -> list[memoryview]:
    rest: list[memoryview] = []
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
            continue
        rest.append(part[sent:])
        sent = 0
    return rest
