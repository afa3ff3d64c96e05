"""Where a request came from: the client's and the listener's addresses, and what is known of such clients."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from service.prefork.fields import Fields
from service.prefork.framing import Head
from service.prefork.head_policy import HeadPolicy
from service.prefork.memory import Memory

_MOST_ORIGINS = 4096
_MOST_HEADS = 256
_LONGEST_HEAD_BYTES = 1024


class Listener(Protocol):
    """What a listening socket tells of itself."""

    @property
    def name(self) -> Any:
        """Its address as `getsockname` gives it."""


class Origin(NamedTuple):
    """One client at one listener.

    Attributes:
        environ: its addresses.
        socket: how a Unix socket is called in a request without Host, which else names it; None for TCP.
        fields: known field lines of clients that are trusted as much as this one.
        heads: known heads of such clients at such a listener.
    """

    environ: dict[str, str]
    socket: dict[str, str] | None
    fields: Fields
    heads: Memory[Head]


class Origins(dict[tuple[Any, Listener], Origin]):
    """Origins by peer and listener: `origins[peer, listener]`. Bounded: emptied when full."""

    def __init__(self, policy: HeadPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._fields = {trusted: Fields(policy, trusted=trusted) for trusted in (False, True)}
        self._heads: dict[tuple[bool, Any], Memory[Head]] = {}

    def __missing__(self, place: tuple[Any, Listener]) -> Origin:
        """Describes a client that isn't known."""
        peer, listener = place
        name, trusted = listener.name, self._policy.trusts(peer)
        environ, socket = _client_environ(peer), None
        if isinstance(name, tuple):
            environ |= {"SERVER_NAME": name[0], "SERVER_PORT": str(name[1])}
        else:
            socket = {"SERVER_NAME": _text(name), "SERVER_PORT": ""}
            # The Host field names the server then; this one says where the request really came in.
            environ["pinion.socket"] = _text(name)
        kind = (trusted, name if socket else None)
        heads = self._heads.setdefault(kind, Memory(_MOST_HEADS, _LONGEST_HEAD_BYTES))
        if len(self) >= _MOST_ORIGINS:
            self.clear()
        self[place] = origin = Origin(environ, socket, self._fields[trusted], heads)
        return origin


def host_environ(host: str, scheme: str) -> dict[str, str]:
    """`SERVER_NAME` and `SERVER_PORT` behind a Unix socket: WSGI wants some, so the Host field gives them.

    Args:
        host: value of the field.
        scheme: `http` or `https`, for the port that isn't named.
    """
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return {"SERVER_NAME": host, "SERVER_PORT": "443" if scheme == "https" else "80"}
    return {"SERVER_NAME": name, "SERVER_PORT": port}


def _client_environ(peer: Any) -> dict[str, str]:
    """`REMOTE_ADDR` and, for TCP, `REMOTE_PORT`."""
    if isinstance(peer, tuple):
        return {"REMOTE_ADDR": peer[0], "REMOTE_PORT": str(peer[1])}
    return {"REMOTE_ADDR": _text(peer)}


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")
