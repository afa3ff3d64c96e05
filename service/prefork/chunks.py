"""Chunked bodies, decoded as they come (RFC 9112 section 7.1).

Strict where gunicorn is: what two servers could read differently is refused, not guessed.
"""

from __future__ import annotations

import re

from service.prefork.refusals import Refusal
from service.prefork.request_line import shown
from service.prefork.trailers import check_trailers

_LONGEST_SIZE_LINE_BYTES = 8190
_LONGEST_TRAILERS_BYTES = 65_536
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_SIZE_LINE = re.compile(
    rb"([0-9A-Fa-f]+)(?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*"
)
_SIZE, _CONTENT, _CONTENT_END, _TRAILERS, _DONE = range(5)
_MORE = -1
"""What a step returns when it needs bytes that haven't come."""


class ChunkedBody:
    """One body in the making.

    Attributes:
        body: what has been decoded.
        rest: what follows the body, once it is whole: the next request.
    """

    __slots__ = ("_held", "_limit_bytes", "_missing_bytes", "_state", "body", "rest")

    def __init__(self, limit_bytes: int) -> None:
        """An empty body.

        Args:
            limit_bytes: of the decoded body.
        """
        self.body = bytearray()
        self.rest = b""
        self._limit_bytes = limit_bytes
        self._held = b""
        self._missing_bytes = 0
        self._state = _SIZE

    def feed(self, data: bytes) -> bool:
        """Takes what has come; returns whether the body is whole.

        Raises:
            Refusal: 400 for a body that can't be read, 413 for one over the limit, 431 for too large trailers.
        """
        if self._held:
            data = self._held + data
        at = 0
        while self._state != _DONE:
            after = _STEPS[self._state](self, data, at)
            if after == _MORE:
                self._held = data[at:]
                return False
            at = after
        self._held, self.rest = b"", data[at:]
        return True

    def _size(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at)
        if (end if end >= 0 else len(data)) - at > _LONGEST_SIZE_LINE_BYTES:
            raise Refusal(
                400, f"a chunk's size line is longer than {_LONGEST_SIZE_LINE_BYTES} bytes: send no extensions"
            )
        if end < 0:
            if data.find(b"\n", at) >= 0:
                raise Refusal(400, "a chunk's size line ends with a bare LF: end it with CRLF")
            return _MORE
        match = _SIZE_LINE.fullmatch(data, at, end)
        if match is None:
            line = data[at:end]
            raise Refusal(400, f"expected the size of a chunk in hexadecimal digits (RFC 9112 7.1), got {shown(line)}")
        self._missing_bytes = int(match[1], 16)
        if len(self.body) + self._missing_bytes > self._limit_bytes:
            limit = self._limit_bytes
            raise Refusal(413, f"the body is larger than the limit of {limit} bytes (PINION_MAX_BODY_BYTES)")
        self._state = _CONTENT if self._missing_bytes else _TRAILERS
        return end + 2

    def _content(self, data: bytes, at: int) -> int:
        count = min(self._missing_bytes, len(data) - at)
        if not count:
            return _MORE
        self.body += memoryview(data)[at : at + count]
        self._missing_bytes -= count
        if not self._missing_bytes:
            self._state = _CONTENT_END
        return at + count

    def _content_end(self, data: bytes, at: int) -> int:
        end = data[at : at + 2]
        if end == b"\r\n":
            self._state = _SIZE
            return at + 2
        if end in (b"", b"\r"):
            return _MORE
        raise Refusal(
            400, f"expected CRLF after a chunk's bytes, got {shown(end)}: the chunk isn't as long as its size says"
        )

    def _trailers(self, data: bytes, at: int) -> int:
        """Trailers are checked and thrown away, which a server may do (RFC 9110 section 6.5.1)."""
        if data.startswith(b"\r\n", at):
            self._state = _DONE
            return at + 2
        end = data.find(b"\r\n\r\n", at)
        if (end if end >= 0 else len(data)) - at > _LONGEST_TRAILERS_BYTES:
            raise Refusal(431, f"the trailers are larger than {_LONGEST_TRAILERS_BYTES} bytes: send none")
        if end < 0:
            if data.count(b"\n", at) != data.count(b"\r\n", at):
                raise Refusal(400, "a trailer line ends with a bare LF: end it with CRLF")
            return _MORE
        check_trailers(data[at:end].split(b"\r\n"))
        self._state = _DONE
        return end + 4


_STEPS = (ChunkedBody._size, ChunkedBody._content, ChunkedBody._content_end, ChunkedBody._trailers)  # noqa: SLF001 - its own class, a step for each state
