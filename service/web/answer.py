"""An HTTP answer below Flask: status line, headers, body."""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson

from service.errors import ServiceError
from service.wire import encodings

_JSON = ("Content-Type", "application/json")
_SMALLEST_COMPRESSED_BYTES = 1024
_LARGEST_JOINED_BYTES = 65_536
_MOST_PARTS = 64

REASONS = {
    200: "200 OK",
    400: "400 Bad Request",
    401: "401 Unauthorized",
    403: "403 Forbidden",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    408: "408 Request Timeout",
    413: "413 Content Too Large",
    415: "415 Unsupported Media Type",
    429: "429 Too Many Requests",
    500: "500 Internal Server Error",
    501: "501 Not Implemented",
    503: "503 Service Unavailable",
    504: "504 Gateway Timeout",
}


_OK = REASONS[200]

Part: TypeAlias = bytes | memoryview
"""Bytes, or the bytes of an output where they lie."""
Answer: TypeAlias = tuple[str, list[tuple[str, str]], list[Part]]
"""Status line as WSGI takes it; headers, lengths and the request's id included; the body's parts."""


def success(body: bytes, environ: dict[str, Any], identity: str, content_type: str = "application/json") -> Answer:
    """A 200, compressed where the caller accepts it and it pays.

    Args:
        body: uncompressed.
        environ: of the request.
        identity: the request's id.
        content_type: of the body.
    """
    headers = [("Content-Type", content_type), ("X-Request-Id", identity), ("Content-Length", str(len(body)))]
    if len(body) <= _SMALLEST_COMPRESSED_BYTES or "HTTP_ACCEPT_ENCODING" not in environ:
        return _OK, headers, [body]
    return _compressed(body, headers[:-1], environ)


def success_with_tensors(text: bytes, tensors: list[Part], environ: dict[str, Any], identity: str) -> Answer:
    """A 200 whose JSON is followed by binary tensors, which leave without a copy if they are large.

    Args:
        text: the JSON.
        tensors: in the order of the JSON.
        environ: of the request.
        identity: the request's id.
    """
    size_bytes = len(text) + sum(map(len, tensors))
    headers = [
        ("Content-Type", "application/octet-stream"),
        ("X-Request-Id", identity),
        ("Inference-Header-Content-Length", str(len(text))),
    ]
    if size_bytes > _SMALLEST_COMPRESSED_BYTES and "HTTP_ACCEPT_ENCODING" in environ:
        return _compressed(b"".join((text, *tensors)), headers, environ)
    headers.append(("Content-Length", str(size_bytes)))
    if size_bytes <= _LARGEST_JOINED_BYTES or len(tensors) > _MOST_PARTS:
        return _OK, headers, [b"".join((text, *tensors))]
    return _OK, headers, [text, *tensors]


def _compressed(body: bytes, headers: list[tuple[str, str]], environ: dict[str, Any]) -> Answer:
    """The answer to a request with `Accept-Encoding`."""
    accepted = environ["HTTP_ACCEPT_ENCODING"]
    if accepted:
        headers.append(("Vary", "Accept-Encoding"))
        encoding = encodings.choose(accepted)
        if encoding is not None:
            body = encodings.compress(body, encoding)
            headers.append(("Content-Encoding", encoding))
    headers.append(("Content-Length", str(len(body))))
    return _OK, headers, [body]


def status_of(answer: Answer) -> int:
    """The number of the status."""
    return int(answer[0][:3])


def failure(error: ServiceError, identity: str) -> Answer:
    """The answer of an error, always JSON."""
    members = error.body(identity)
    try:
        body = orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # Integers beyond 64 bits, or text that is no UTF-8: shown as text rather than not at all.
        body = orjson.dumps({key: _printable(value) for key, value in members.items()})
    headers = [_JSON, ("X-Request-Id", identity), *error.headers, ("Content-Length", str(len(body)))]
    return REASONS[error.status], headers, [body]


def _printable(value: Any) -> Any:
    return value if isinstance(value, int) else str(value).encode("utf-8", "replace").decode()
