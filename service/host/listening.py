"""Whether a local address is the one that operators use."""

from __future__ import annotations

import socket
from typing import Any

_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - names of the addresses, nothing is bound here


class OperatorsAddress:
    """The address of the setting `operator_bind`, `host:port` or `unix:path`; None for none, which nothing equals."""

    def __init__(self, bind: str | None) -> None:
        self._path: str | None = None
        self._port = 0
        self._hosts: frozenset[str] = frozenset()
        if bind is None:
            return
        if bind.startswith("unix:"):
            self._path = bind.removeprefix("unix:")
            return
        host, _, port = bind.rpartition(":")
        self._port = int(port)
        self._hosts = _numeric(host.strip("[]"))

    def is_at(self, name: Any) -> bool:
        """Whether a socket's own address is it.

        Args:
            name: what `getsockname` gives, of a listener or of a connection that one accepted.
        """
        if not isinstance(name, tuple):
            path = name if isinstance(name, str) else bytes(name).decode("utf-8", "replace")
            return self._path is not None and path == self._path
        if not self._port or name[1] != self._port:
            return False
        return not self._hosts.isdisjoint((name[0], *_WILDCARDS))


def _numeric(host: str) -> frozenset[str]:
    """The addresses that a name stands for; the name itself where nobody knows it."""
    if host in _WILDCARDS:
        return frozenset((host,))
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return frozenset((host,))
