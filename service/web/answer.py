"""An HTTP answer below Flask: status line, headers, body."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from service.errors import ServiceError
from service.wire import encodings

_JSON = ("Content-Type", "application/json")
_SMALLEST_COMPRESSED_BYTES = 1024

REASONS = {
    200: "200 OK",
    400: "400 Bad Request",
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


class Answer(NamedTuple):
    """What goes back to the caller.

    Attributes:
        status: the number.
        headers: in order; lengths and the request's id included.
        body: all of it.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def status_line(self) -> str:
        """Number and reason as WSGI takes them."""
        return REASONS[self.status]


def success(
    body: bytes,
    environ: dict[str, Any],
    identity: str,
    *,
    content_type: str = "application/json",
    json_size: int | None = None,
) -> Answer:
    """A 200, compressed where the caller accepts it and it pays.

    Args:
        body: uncompressed.
        environ: of the request.
        identity: the request's id.
        content_type: of the body.
        json_size: bytes of its JSON part, where binary tensors follow it.
    """
    if json_size is None and len(body) <= _SMALLEST_COMPRESSED_BYTES:
        return Answer(
            200, [("Content-Type", content_type), ("X-Request-Id", identity), ("Content-Length", str(len(body)))], body
        )
    headers = [("Content-Type", content_type), ("X-Request-Id", identity)]
    if json_size is not None:
        headers[0] = ("Content-Type", "application/octet-stream")
        headers.append(("Inference-Header-Content-Length", str(json_size)))
    accepted = environ.get("HTTP_ACCEPT_ENCODING")
    if accepted and len(body) > _SMALLEST_COMPRESSED_BYTES:
        headers.append(("Vary", "Accept-Encoding"))
        encoding = encodings.choose(accepted)
        if encoding is not None:
            body = encodings.compress(body, encoding)
            headers.append(("Content-Encoding", encoding))
    headers.append(("Content-Length", str(len(body))))
    return Answer(200, headers, body)


def failure(error: ServiceError, identity: str) -> Answer:
    """The answer of an error, always JSON."""
    members = error.body(identity)
    try:
        body = orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # Integers beyond 64 bits, or text that is no UTF-8: shown as text rather than not at all.
        body = orjson.dumps({key: _printable(value) for key, value in members.items()})
    headers = [_JSON, ("X-Request-Id", identity), *error.headers, ("Content-Length", str(len(body)))]
    return Answer(error.status, headers, body)


def _printable(value: Any) -> Any:
    return value if isinstance(value, int) else str(value).encode("utf-8", "replace").decode()
