"""The bytes of an answer: status line, headers, and the JSON of what is refused below the application."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from http import HTTPStatus

from service.prefork.connection import Connection

_OURS, _LENGTH, _CONNECTION, _THEIRS = range(4)
_SPECIAL = {
    "connection": _CONNECTION,
    "content-length": _LENGTH,
    **dict.fromkeys(
        (
            "date",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "server",
            "te",
            "trailers",
            "transfer-encoding",
            "upgrade",
        ),
        _OURS,
    ),
}
"""Headers that the server owns (RFC 9110 section 7.6.1, and gunicorn's own), and those that it looks at."""
_MOST_NAMES = 256
_USUAL_LINES = 8
_WITHOUT_BODY = ("1", "204", "304")


class InvalidResponse(ValueError):
    """The application gave a status or header that can't be sent."""


class HeadWriter:
    """Formats heads; knows the time to the second."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._second = 0
        self._fixed = {True: "", False: ""}
        self._kinds: dict[str, int] = {}

    def head(self, connection: Connection, body_bytes: int) -> bytes:
        """The head of the answer that the application started on a connection.

        Args:
            connection: with the application's status and headers; a `Connection: close` of the application's turns
                its `keep_alive` off.
            body_bytes: size of the whole body.

        Raises:
            InvalidResponse: a line break within a header, or no Latin-1.
        """
        second = int(time.time())
        if second != self._second:
            self._renew(second)
        status, headers = connection.status or "", connection.headers
        usual = _usual(status, self._fixed[connection.keep_alive], headers)
        return self._any(connection, status, headers, body_bytes) if usual is None else usual

    def _any(self, connection: Connection, status: str, headers: list[tuple[str, str]], body_bytes: int) -> bytes:
        lines = [f"HTTP/1.1 {status}\r\n", ""]
        sized = False
        for name, value in headers:
            kind = self._kinds.get(name)
            if kind is None:
                kind = self._learn(name)
            if kind == _THEIRS:
                lines.append(f"{name}: {value}\r\n")
            elif kind == _LENGTH:
                sized = True
                lines.append(f"{name}: {value}\r\n")
            elif kind == _CONNECTION and value.strip().lower() == "close":
                connection.keep_alive = False
        lines[1] = self._fixed[connection.keep_alive]
        if not sized and has_body(status):
            lines.append(f"Content-Length: {body_bytes}\r\n")
        lines.append("\r\n")
        text = "".join(lines)
        # One break for each line and no other: what an application passes on can't split the answer.
        if text.count("\n") != len(lines) + 2 or text.count("\r") != len(lines) + 2:
            raise InvalidResponse(f"a line break in the status or a header of {status!r}")
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError as fault:
            raise InvalidResponse(f"a header is no Latin-1: {fault}") from None

    def _learn(self, name: str) -> int:
        lower = name.lower()
        kind = _SPECIAL.get(lower, _THEIRS)
        if len(self._kinds) < _MOST_NAMES:
            self._kinds[name] = kind
        return kind

    def _renew(self, second: int) -> None:
        self._second = second
        common = f"Server: {self._server}\r\nDate: {formatdate(second, usegmt=True)}\r\nConnection: "
        self._fixed = {True: f"{common}keep-alive\r\n", False: f"{common}close\r\n"}


def _usual(status: str, fixed: str, headers: list[tuple[str, str]]) -> bytes | None:
    """The head of an answer with the three fields that an inference's has; None for any other."""
    if len(headers) != 3:  # noqa: PLR2004 - these
        return None
    (first, kind), (second, identity), (third, length) = headers
    if first != "Content-Type" or second != "X-Request-Id" or third != "Content-Length":
        return None
    fields = f"Content-Type: {kind}\r\nX-Request-Id: {identity}\r\nContent-Length: {length}\r\n"
    text = f"HTTP/1.1 {status}\r\n{fixed}{fields}\r\n"
    # Whatever is odd about it is told by the general way.
    if text.count("\n") != _USUAL_LINES or text.count("\r") != _USUAL_LINES or not text.isascii():
        return None
    return text.encode()


def has_body(status: str) -> bool:
    """Whether an answer of this status carries a body (RFC 9110 section 6.4.1)."""
    return not status.startswith(_WITHOUT_BODY)


def refusal(status: int, sentence: str, slug: str = "invalid-request") -> bytes:
    """A whole answer for a request that never reached the application; the connection closes after it."""
    phrase = HTTPStatus(status).phrase
    body = json.dumps(
        {
            "error": sentence,
            "type": f"/problems/{slug}",
            "title": phrase,
            "status": status,
        }
    ).encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nDate: {formatdate(usegmt=True)}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body
