"""What a parser makes of one message, in a form that two parsers can be compared by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NOT_COMPARED = frozenset(
    {
        "gunicorn.socket",  # ours belongs to the loop
        "pinion.socket",  # ours only: the path of the listener, which gunicorn.socket would tell
        "wsgi.early_hints",  # needs a socket: not offered
        "wsgi.errors",  # an object, the same class on both sides
        "wsgi.input",  # bodies are compared by their bytes
        "wsgi.multithread",  # gthread says True; a gathering worker calls the application in one thread
    }
)
"""Deliberate differences of every environ."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds a message.

    Attributes:
        settings: gunicorn settings that aren't the default.
        peer: the client's address.
        server: the listener's.
        script_name: the environment variable.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    peer: Any = ("192.0.2.7", 50_000)
    server: Any = ("127.0.0.1", 8000)
    script_name: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Either a refusal's status, or a request.

    Attributes:
        status: of the refusal; 0 for a request, -1 when the message isn't complete.
        environ: without what isn't compared.
        keep_alive: whether another request may follow.
        body: decoded.
        body_status: of the refusal of the body; 0 for none, -1 when it isn't complete.
        rest: what follows the request.
    """

    status: int = 0
    environ: dict[str, Any] = field(default_factory=dict)
    keep_alive: bool = False
    expect_continue: bool = False
    body: bytes = b""
    body_status: int = 0
    rest: bytes = b""


def comparable(environ: dict[str, Any]) -> dict[str, Any]:
    """An environ without the deliberate differences."""
    return {key: value for key, value in environ.items() if key not in NOT_COMPARED}
