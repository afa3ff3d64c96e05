"""The first line of a request: method, target, version (RFC 9112 section 3)."""

from __future__ import annotations

import re
from typing import Any

from gunicorn.util import split_request_uri, unquote_to_wsgi_str

from service.prefork.head_policy import HeadPolicy
from service.prefork.refusals import Refusal

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNCONVENTIONAL = re.compile(r"[a-z#]")
_SHORTEST_METHOD, _LONGEST_METHOD = 3, 20
_TARGET = re.compile(r"[\x21-\x7e]+")
_VERSION = re.compile(r"HTTP/([0-9])\.([0-9])")
_PARTS = 3
_SHOWN_CHARACTERS = 80


class RequestLine:
    """A first line that was accepted.

    Attributes:
        method: as the application sees it.
        path: of the target, still percent-encoded.
        version: major and minor number.
        environ: template of the environ for requests that start with this line.
    """

    __slots__ = ("environ", "method", "path", "version")

    def __init__(self, line: bytes, policy: HeadPolicy) -> None:
        """Reads a line without its end.

        Raises:
            Refusal: 400, 414.
        """
        self.method, target, version = _split(line, policy)
        self.path, query = _read_target(target, self.method)
        self.version = _read_version(version, policy)
        self.environ: dict[str, Any] = {
            **policy.environ,
            "REQUEST_METHOD": self.method,
            "QUERY_STRING": query,
            "RAW_URI": target,
            "SERVER_PROTOCOL": "HTTP/{}.{}".format(*self.version),
            "PATH_INFO": path_info(self.path[len(policy.script_name) :]),
            "SCRIPT_NAME": policy.script_name,
        }


def path_info(path: str) -> str:
    """Percent-decoding for WSGI: the bytes as Latin-1 characters (PEP 3333)."""
    return unquote_to_wsgi_str(path) if "%" in path else path


def shown(text: str | bytes) -> str:
    """Foreign text for an error, cut to a length that can be read."""
    plain = str(text, "latin-1") if isinstance(text, bytes) else text
    cut = plain if len(plain) <= _SHOWN_CHARACTERS else plain[:_SHOWN_CHARACTERS] + "…"
    return ascii(cut)


def check_line_bytes(count: int, policy: HeadPolicy) -> None:
    """Refuses a line that is too long.

    Raises:
        Refusal: 414.
    """
    limit = policy.limit_request_line
    if 0 < limit < count:
        raise Refusal(
            414,
            f"the request line has {count} bytes, the limit is {limit} (limit_request_line): send a shorter target",
        )


def _split(line: bytes, policy: HeadPolicy) -> tuple[str, str, str]:
    if b"\n" in line:
        raise Refusal(400, "the request line ends with a bare LF: end every line of the head with CRLF")
    check_line_bytes(len(line), policy)
    parts = str(line, "latin-1").split(" ", 2)
    if len(parts) != _PARTS:
        raise Refusal(400, f"expected a request line like 'GET / HTTP/1.1', got {shown(line)}")
    method, target, version = parts
    if not TOKEN.fullmatch(method) or not (policy.permit_unconventional_http_method or _is_usual(method)):
        raise Refusal(400, f"expected a method in capital letters, such as GET or POST, got {shown(method)}")
    return method.upper() if policy.casefold_http_method else method, target, version


def _is_usual(method: str) -> bool:
    return _SHORTEST_METHOD <= len(method) <= _LONGEST_METHOD and not _UNCONVENTIONAL.search(method)


def _read_target(target: str, method: str) -> tuple[str, str]:
    """Path and query of a target in one of the four forms of RFC 9112 section 3.2."""
    if not _TARGET.fullmatch(target):
        raise Refusal(
            400, f"the target {shown(target)} must be printable ASCII: percent-encode everything else (RFC 3986)"
        )
    if not _has_form(target, method):
        raise Refusal(400, f"the target {shown(target)} of a {shown(method)} must be a path that starts with '/'")
    try:
        parts = split_request_uri(target)
    except ValueError:
        raise Refusal(400, f"the target {shown(target)} isn't a URI (RFC 3986)") from None
    return parts.path, parts.query


def _has_form(target: str, method: str) -> bool:
    if target == "*":
        return method == "OPTIONS"
    return method == "CONNECT" or target.startswith("/") or "://" in target


def _read_version(version: str, policy: HeadPolicy) -> tuple[int, int]:
    match = _VERSION.fullmatch(version)
    if match is not None:
        major, minor = int(match[1]), int(match[2])
        if major == 1 or policy.permit_unconventional_http_version:
            return major, minor
    raise Refusal(400, f"expected HTTP/1.1 or HTTP/1.0 at the end of the request line, got {shown(version)}")
