"""One client's connection: what has been received, what is still to be sent, and until when."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import Any

IDLE, HEAD, BODY, IN_HAND, SENDING, LINGER, CLOSED = range(7)
"""Waits for a request; has a part of its head; has a part of its body; is being answered; has unsent bytes of an
answer; has sent its last answer and waits for the client to close; is closed."""


class Connection:
    """State of one connection; only the loop changes it.

    Attributes:
        sock: non-blocking.
        fd: its number, for the poll.
        peer: address of the client.
        listener: facts of the listener that accepted it, for the environ.
        state: one of the constants above.
        received: bytes of a head that isn't complete, or of requests behind the one in hand.
        request: bytes of the request in hand, where it could be given to another worker.
        scanned: how far `received` has been searched for the end of the head.
        head: of the request whose body is being received, or that is in hand.
        lane: how the application begins the answer to a request with this head; None where it doesn't tell.
        lane_head: the head last seen that has a lane.
        head_text: its bytes.
        body: buffer of a body with a length.
        filled: bytes of it that are there.
        chunked: decoder of a chunked body.
        unsent: parts of an answer that the client hasn't taken yet.
        kept_bytes: what they keep in memory.
        keep_alive: whether another request may follow the one in hand.
        deadline_s: monotonic time at which patience ends.
        began_s: monotonic time of the first byte of the request.
        interest: events that the poll watches.
        status: status line that the application gave.
        headers: that the application gave.
        written: body parts given to the `write` callable.
    """

    __slots__ = (
        "began_s",
        "body",
        "chunked",
        "deadline_s",
        "fd",
        "filled",
        "head",
        "head_text",
        "headers",
        "interest",
        "keep_alive",
        "kept_bytes",
        "lane",
        "lane_head",
        "listener",
        "peer",
        "received",
        "request",
        "scanned",
        "sock",
        "state",
        "status",
        "unsent",
        "written",
    )

    def __init__(self, sock: socket.socket, peer: Any, listener: Any, deadline_s: float) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.listener = listener
        self.state = IDLE
        self.received: bytes = b""
        self.request: bytes = b""
        self.scanned = 0
        self.head: Any = None
        self.head_text = b""
        self.lane: Any = None
        self.lane_head: Any = None
        self.body: bytearray | None = None
        self.filled = 0
        self.chunked: Any = None
        self.unsent: list[memoryview] = []
        self.kept_bytes = 0
        self.keep_alive = True
        self.deadline_s = deadline_s
        self.began_s = 0.0
        self.interest = 0
        self.status: str | None = None
        self.headers: list[tuple[str, str]] = []
        self.written: list[bytes] = []

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """PEP 3333's callable; nothing is sent before the whole answer is there, so it may be replaced on error."""
        if self.status is not None and exc_info is None:
            raise RuntimeError("start_response was called twice without exc_info")
        self.status = status
        self.headers = headers
        return self.written.append


class Input:
    """`wsgi.input` over a body that has been received; becomes a stream only if somebody reads it."""

    __slots__ = ("_body", "_stream")

    def __init__(self, body: bytes | bytearray) -> None:
        self._body = body
        self._stream: io.BytesIO | None = None

    def __getattr__(self, name: str) -> Any:
        if self._stream is None:
            self._stream = io.BytesIO(self._body)
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self.__getattr__("readline"), b"")
