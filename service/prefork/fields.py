"""Header field lines, each read once (RFC 9112 section 5).

A client sends nearly the same lines with every request, so what a line means is remembered by its bytes.
"""

from __future__ import annotations

import re

from service.prefork.head_policy import HeadPolicy
from service.prefork.memory import Memory
from service.prefork.refusals import Refusal
from service.prefork.request_line import TOKEN, shown

Field = tuple[str | None, str, str | None]
"""A field's name in the environ (None for one that is dropped), its value without the white space around it, and
what it does besides (None for nearly all)."""
CODING, SCRIPT_NAME = "transfer coding", "script name"
"""What fields do besides; the others are the schemes `http` and `https`."""

_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HOST = re.compile(
    r"(?:\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
)
_PARTICULAR = frozenset(("CONTENT-TYPE", "CONTENT-LENGTH", "EXPECT", "HOST", "TRANSFER-ENCODING"))
_MOST_LINES = 1024
_LONGEST_LINE_BYTES = 512


class Fields(Memory[Field]):
    """Field lines from one class of peers: `fields[line]` reads a line, or remembers it."""

    __slots__ = ("_forwarder", "_particular", "_policy", "_schemes")

    def __init__(self, policy: HeadPolicy, *, trusted: bool) -> None:
        """For one policy.

        Args:
            policy: gunicorn's settings.
            trusted: whether these peers may set forwarding fields.
        """
        super().__init__(_MOST_LINES, _LONGEST_LINE_BYTES)
        self._policy = policy
        self._schemes = policy.secure_scheme_headers if trusted else {}
        self._forwarder = policy.forwarder_headers if trusted else frozenset()
        self._particular = _PARTICULAR.union(self._schemes)

    def __missing__(self, line: bytes) -> Field:
        """Reads a line that isn't known.

        Raises:
            Refusal: 400, 417, 431.
        """
        match = _LINE.fullmatch(str(line, "latin-1"))
        name, value = (match[1], match[2].strip(" \t")) if match else _read_odd(line, self._policy)
        limit = self._policy.limit_request_field_size
        if len(line) + 2 > limit:
            raise Refusal(
                431, f"the header field {shown(name)} is larger than {limit} bytes (limit_request_field_size)"
            )
        name = name.upper()
        if name in self._particular or "_" in name:
            field = self._read_particular(name, value)
        else:
            field = "HTTP_" + name.replace("-", "_"), value, None
        if self.is_worth(line):
            self.keep(line, field)
        return field

    def _read_particular(self, name: str, value: str) -> Field:
        _check_value(name, value)
        effect = None
        if name in self._schemes:
            effect = "https" if value == self._schemes[name] else "http"
        if "_" in name and not self._keeps_underscore(name):
            return None, value, effect
        if name in ("CONTENT-TYPE", "CONTENT-LENGTH"):
            return name.replace("-", "_"), value, effect
        if name == "TRANSFER-ENCODING":
            effect = CODING
        elif name == "SCRIPT_NAME":
            effect = SCRIPT_NAME
        return "HTTP_" + name.replace("-", "_"), value, effect

    def _keeps_underscore(self, name: str) -> bool:
        """Whether a name that could be taken for another one in the environ is let through."""
        if name in self._forwarder or "*" in self._forwarder or self._policy.header_map == "dangerous":
            return True
        if self._policy.header_map == "drop":
            return False
        raise Refusal(400, f"the header field {shown(name)} has '_' in its name: use '-'")


def split_lines(block: bytes, policy: HeadPolicy) -> list[bytes]:
    """The field lines of a head, a folded one with its continuation."""
    if not block:
        return []
    if policy.permit_obsolete_folding:
        return re.split(rb"\r\n(?![ \t])", block)
    return block.split(b"\r\n")


def read_strictly(line: bytes) -> tuple[str, str]:
    """Name and value of a line.

    Raises:
        Refusal: 400.
    """
    match = _LINE.fullmatch(str(line, "latin-1"))
    if match is None:
        raise _not_a_field(line)
    return match[1], match[2].strip(" \t")


def _read_odd(line: bytes, policy: HeadPolicy) -> tuple[str, str]:
    """Name and value of a line that is right only under a lenient setting of gunicorn's, if at all."""
    name, colon, value = str(line, "latin-1").partition(":")
    if policy.strip_header_spaces:
        name = name.rstrip(" \t")
    if not colon or not TOKEN.fullmatch(name):
        raise _not_a_field(line)
    value = " ".join(part.strip(" \t") for part in value.split("\r\n"))
    if _CONTROL.search(value):
        raise _not_a_field(line)
    return name, value


def _not_a_field(line: bytes) -> Refusal:
    return Refusal(400, f"expected a header field 'name: value' without control characters, got {shown(line)}")


def _check_value(name: str, value: str) -> None:
    if name == "EXPECT" and value.lower() != "100-continue":
        raise Refusal(417, f"expected 'Expect: 100-continue', the one expectation there is, got {shown(value)}")
    if name == "HOST" and not _HOST.fullmatch(value):
        raise Refusal(400, f"expected a Host field 'name:port' (RFC 9112 section 3.2), got {shown(value)}")
