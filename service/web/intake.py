"""What every request passes: its id, and its body within the limits."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

from service.errors import BodyTooLarge, ClientStalled, MalformedBody, ServiceError
from service.wire import encodings

_ID = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_CHUNK_BYTES = 1 << 20
_MOST_DIGITS = 19


class _Ids:
    """Ids that no other process makes: random for the process, then counted."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Starts anew, in a process that has just been forked."""
        self._prefix = os.urandom(10).hex()
        self._count = itertools.count(int.from_bytes(os.urandom(4), "big"))

    def make(self) -> str:
        """A new id of 32 hexadecimal digits."""
        return f"{self._prefix}{next(self._count):012x}"


_ids = _Ids()


def request_id(environ: dict[str, Any]) -> str:
    """The caller's `X-Request-Id` where it has up to 128 printable characters, else a new one."""
    given = environ.get("HTTP_X_REQUEST_ID")
    if given is not None and _ID.match(given):
        text: str = given
        return text
    return _ids.make()


def read_body(environ: dict[str, Any], limit_bytes: int) -> bytes | bytearray:
    """The whole body, decompressed.

    Raises:
        BodyTooLarge: over the limit, on the wire or decompressed.
        MalformedBody: shorter than its Content-Length, or a compressed stream that is cut or none.
        UnsupportedMedia: a Content-Encoding that can't be read.
        ClientStalled: the client stopped sending.
    """
    body = environ.get("pinion.body")
    if body is None:
        body = _received(environ, limit_bytes)
    return decompressed(body, environ, limit_bytes)


def decompressed(body: bytes | bytearray, environ: dict[str, Any], limit_bytes: int) -> bytes | bytearray:
    """The body as its `Content-Encoding` says.

    Raises:
        BodyTooLarge: over the limit when decompressed.
        MalformedBody: a compressed stream that is cut or none.
        UnsupportedMedia: a Content-Encoding that can't be read.
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING")
    return encodings.decompress(bytes(body), encoding, limit_bytes) if encoding else body


def content_length(environ: dict[str, Any]) -> int | None:
    """The number in `Content-Length`; digits beyond 64 bits are cut, since Python refuses to read thousands."""
    digits = environ.get("CONTENT_LENGTH")
    return int(digits.lstrip("0")[:_MOST_DIGITS] or "0") if digits else None


def _received(environ: dict[str, Any], limit_bytes: int) -> bytes:
    length = content_length(environ)
    if length is None and not environ.get("wsgi.input_terminated"):
        return b""
    if length is not None and length > limit_bytes:
        raise _too_large(limit_bytes, length)
    try:
        return _read(environ["wsgi.input"], length, limit_bytes)
    except ServiceError:
        raise
    except (TimeoutError, BlockingIOError):
        raise ClientStalled("the client stopped sending before the body was complete") from None
    except Exception as fault:  # noqa: BLE001 - whatever the server's reader says of bytes that the client sent
        raise MalformedBody(f"the body could not be received: {fault}") from None


def _read(stream: Any, length: int | None, limit_bytes: int) -> bytes:
    if length is not None:
        body: bytes = stream.read(length)
        if len(body) < length:
            raise MalformedBody(
                f"Content-Length says {length} bytes, {len(body)} came before the connection was closed",
                expected=length,
                received=len(body),
            )
        return body
    parts: list[bytes] = []
    size = 0
    while part := stream.read(_CHUNK_BYTES):
        size += len(part)
        if size > limit_bytes:
            raise _too_large(limit_bytes, size)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit_bytes: int, received: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the body is larger than the limit of {limit_bytes} bytes (PINION_MAX_BODY_BYTES)",
        expected=limit_bytes,
        received=received,
    )
