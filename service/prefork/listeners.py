"""Listening sockets of a worker, with what an environ says of them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gunicorn import sock as gunicorn_sock


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One listening socket.

    Attributes:
        index: among the listeners of the service.
        sock: non-blocking; shared with the other workers.
        name: its address as `getsockname` gives it.
        is_tcp: whether TCP options apply.
        tls: made once for all connections; None without TLS.
    """

    index: int
    sock: socket.socket
    name: Any
    is_tcp: bool
    tls: ssl.SSLContext | None


def open_listeners(sockets: Iterable[Any], cfg: Any) -> dict[int, Listener]:
    """The listeners by file number, made non-blocking."""
    context = gunicorn_sock.ssl_context(cfg) if cfg.is_ssl else None
    found: dict[int, Listener] = {}
    for index, item in enumerate(sockets):
        item.setblocking(False)
        sock = item.sock
        is_tcp = sock.family in (socket.AF_INET, socket.AF_INET6)
        found[sock.fileno()] = Listener(index, sock, sock.getsockname(), is_tcp, context)
    return found
