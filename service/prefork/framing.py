"""Where the body of a request ends, and whether the connection lives on (RFC 9112 sections 6 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.prefork.refusals import Refusal
from service.prefork.request_line import shown

HTTP_1_1 = (1, 1)
_LONGEST_NUMBER = 19
"""Digits that surely fit 64 bits signed."""
_CODINGS = ("chunked", "identity", "compress", "deflate", "gzip")


@dataclass(slots=True, eq=False)
class Head:
    """A request head that was accepted.

    Attributes:
        environ: for the application, without `wsgi.input`; the caller's own copy.
        version: major and minor number.
        body_length: in bytes; None without `Content-Length`.
        chunked: whether the body comes in chunks.
        keep_alive: whether another request may follow on the connection.
        expect_continue: whether the client waits for `100 Continue` before it sends the body.
    """

    environ: dict[str, Any]
    version: tuple[int, int]
    body_length: int | None
    chunked: bool
    keep_alive: bool
    expect_continue: bool


def copied(head: Head) -> Head:
    """The same head with an environ of its own."""
    return Head(
        head.environ.copy(), head.version, head.body_length, head.chunked, head.keep_alive, head.expect_continue
    )


def frame(environ: dict[str, Any], version: tuple[int, int], codings: str | None) -> Head:
    """Decides how the body of a request ends.

    Args:
        environ: with every field in its place.
        version: of the request line.
        codings: what `Transfer-Encoding` said, repeated fields joined with commas; None without it.

    Raises:
        Refusal: 400, 501.
    """
    alive = _keeps_alive(environ, version)
    if codings is not None:
        alive = not _has_further_coding(codings, environ, version) and alive
    # An HTTP/1.0 client doesn't know 100 Continue: its expectation is ignored (RFC 9110 section 10.1.1).
    expects = version >= HTTP_1_1 and "HTTP_EXPECT" in environ
    return Head(environ, version, _body_length(environ), codings is not None, alive, expects)


def _body_length(environ: dict[str, Any]) -> int | None:
    """The number in `Content-Length`; repeated fields have been joined with commas and are none."""
    text = environ.get("CONTENT_LENGTH")
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        if len(text) <= _LONGEST_NUMBER:
            return int(text)
        digits = text.lstrip("0")
        if len(digits) <= _LONGEST_NUMBER:
            return int(digits or "0")
    raise Refusal(400, f"expected one Content-Length with digits only, got {shown(text)}")


def _has_further_coding(codings: str, environ: dict[str, Any], version: tuple[int, int]) -> bool:
    """Checks `Transfer-Encoding`; tells whether there is a coding beneath chunked, after which we close."""
    names = [name.strip(" \t").lower() for name in codings.split(",")]
    chunked = False
    for name in names:
        if name not in _CODINGS:
            raise Refusal(501, f"the transfer coding {shown(name)} isn't offered: send 'Transfer-Encoding: chunked'")
        if chunked:
            raise Refusal(400, "chunked must come once and last in Transfer-Encoding (RFC 9112 section 6.1)")
        chunked = name == "chunked"
    if not chunked:
        raise Refusal(400, "Transfer-Encoding must end with chunked, or the body has no end (RFC 9112 section 6.3)")
    if version < HTTP_1_1:
        raise Refusal(400, "Transfer-Encoding doesn't exist in HTTP/1.0: send Content-Length, or use HTTP/1.1")
    if "CONTENT_LENGTH" in environ:
        raise Refusal(400, "Content-Length and Transfer-Encoding exclude each other: send one of them")
    return any(name not in ("chunked", "identity") for name in names)


def _keeps_alive(environ: dict[str, Any], version: tuple[int, int]) -> bool:
    """Whether another request may follow (RFC 9112 section 9.3).

    After a CONNECT none may: the client goes on with something else than HTTP (RFC 9931 section 8).
    """
    if environ["REQUEST_METHOD"] == "CONNECT":
        return False
    options = environ.get("HTTP_CONNECTION")
    if options is None:
        return version >= HTTP_1_1
    names = [name.strip(" \t") for name in options.lower().split(",")]
    return "close" not in names and (version >= HTTP_1_1 or "keep-alive" in names)
