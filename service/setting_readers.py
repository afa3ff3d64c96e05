"""Readers of settings: a text becomes a value, or a ValueError that says what would have been right."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

_HIGHEST_PORT = 65535

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_text(text: str) -> str:
    """Any text but the empty one."""
    if not text:
        raise ValueError("a text that isn't empty")
    return text


def read_flag(text: str) -> bool:
    """`1`, `true`, `yes`, `on` or their opposites."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false")


def at_least(low: int) -> Callable[[str], int]:
    """Reader of whole numbers from `low` on."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise ValueError(f"a whole number from {low} on")
        return number

    return read


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("a number of seconds above 0")
    return number


def seconds_or_none(text: str) -> float:
    """A number of seconds from 0 on."""
    try:
        return 0.0 if float(text) == 0 else seconds(text)
    except ValueError:
        raise ValueError("a number of seconds from 0 on") from None


def one_of(*words: str) -> Callable[[str], str]:
    """Reader of one word of a list."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text.lower()

    return read


def port_number(text: str) -> int:
    """A TCP port."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= _HIGHEST_PORT:
        raise ValueError("a port from 0 to 65535")
    return number


def address(text: str) -> str:
    """Where to listen."""
    host, _, port = text.rpartition(":")
    is_port = port.isdecimal() and int(port) <= _HIGHEST_PORT
    if text == "unix:" or not (text.startswith("unix:") or (host and is_port)):
        raise ValueError("an address, `host:port` or `unix:path`")
    return text


def path_on_server(text: str) -> str:
    """The path of a route."""
    if not text.startswith("/"):
        raise ValueError("a path that starts with /")
    return text


def rate(text: str) -> float:
    """A number of requests a second."""
    try:
        return seconds(text)
    except ValueError:
        raise ValueError("a number of requests a second above 0") from None


def networks(text: str) -> tuple[Network, ...]:
    """Networks of addresses."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError("networks with commas, such as 10.0.0.0/8,2001:db8::/32,192.0.2.7") from None
