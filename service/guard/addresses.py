"""Whose address a request has, behind the proxies that are trusted, and whether it may ask at all."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

from service.setting_readers import Network

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_KNOWN = 4096
_MOST_HOPS = 32
_SUBSCRIBER_BITS = 64
_TAG_MASK = (1 << 63) - 1


class Client(NamedTuple):
    """Where a request came from.

    Attributes:
        text: the address; empty for a process on this machine at a Unix socket.
        allowed: whether it is in the networks that may ask.
        tag: names its meter. An IPv6 subscriber has a whole /64 and one meter for it.
    """

    text: str
    allowed: bool
    tag: int


class Addresses:
    """What is known of clients; bounded, emptied when full."""

    def __init__(self, allowed: tuple[Network, ...], seed: Callable[[], bytes]) -> None:
        """Trusts no proxy until `trust` is called.

        Args:
            allowed: networks that may ask; none for all.
            seed: gives the key of the tags' hash, in the process that asks.
        """
        self._allowed = allowed
        self._seed = seed
        self._trusts_all = False
        self._trusted: tuple[Network, ...] = ()
        self._known: dict[tuple[str, str | None], Client] = {}

    def trust(self, allow_ips: Iterable[str]) -> None:
        """Believes `X-Forwarded-For` from these peers: gunicorn's `forwarded_allow_ips`."""
        found = list(allow_ips)
        self._trusts_all = "*" in found
        self._trusted = tuple(ipaddress.ip_network(text, strict=False) for text in found if text != "*")
        self._known.clear()

    def of(self, environ: dict[str, Any]) -> Client:
        """The client of a request.

        The right end of `X-Forwarded-For` was written by the nearest proxy. From there on the first address that is
        no trusted proxy's is the client; the rest of the field may be anyone's invention.
        """
        place = environ.get("REMOTE_ADDR", ""), environ.get("HTTP_X_FORWARDED_FOR")
        client = self._known.get(place)
        if client is None:
            client = self._find(*place)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[place] = client
        return client

    def _find(self, remote: str, forwarded: str | None) -> Client:
        peer = _read(remote)
        if peer is None and remote:
            return Client(remote[:64], not self._allowed, self._tag(remote))
        address = peer
        if forwarded is not None:
            for hop in reversed(forwarded.split(",")[-_MOST_HOPS:]):
                found = _read(hop) if self._trusts(address) else None
                if found is None:
                    break
                address = found
        if address is None:
            return Client("", True, self._tag(""))
        return Client(str(address), self._allows(address), self._tag(_subscriber(address)))

    def _trusts(self, address: _Ip | None) -> bool:
        """Whether what this hop says of the one before it is believed; a Unix socket's peer is, as by gunicorn."""
        return address is None or self._trusts_all or any(address in network for network in self._trusted)

    def _allows(self, address: _Ip) -> bool:
        return not self._allowed or any(address in network for network in self._allowed)

    def _tag(self, subscriber: str) -> int:
        digest = blake2b(subscriber.encode("utf-8", "replace"), key=self._seed(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") & _TAG_MASK) or 1


def _read(text: str) -> _Ip | None:
    """An address as proxies write it: bare, with a port, in brackets; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _subscriber(address: _Ip) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, _SUBSCRIBER_BITS), strict=False))
