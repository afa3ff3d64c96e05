"""Where we answer otherwise than gunicorn, and the section that makes ours right.

Each row says from the message and gunicorn's outcome alone what ours has to be: our parser can't excuse itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.data.http.corpus import PLAIN, Case
from tests.data.http.outcome import Outcome
from tests.data.http.parts import head
from tests.data.http.reference import read_by_gunicorn

_REFUSED = Outcome(status=400)
_REFUSED_LATER = (0, 417, 431, 500, 501)
"""What gunicorn says of a head after it has passed the line that we refuse."""
_ADDRESS = rb"\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[-!$&-.0-9:;=A-Z_a-z~]+)\]"
_HOST = re.compile(rb"(" + _ADDRESS + rb"|[^:\[\]/?#@\\ \t\x80-\xff\"<>^`{|}]*)(?::(\d*))?")


@dataclass(frozen=True, slots=True)
class Difference:
    """One deliberate difference.

    Attributes:
        what: we do.
        section: of the standard that asks for it.
        ours: our outcome, given gunicorn's; None where the difference doesn't apply.
    """

    what: str
    section: str
    ours: Callable[[Case, Outcome], Outcome | None]


def _values(case: Case, name: bytes) -> list[bytes]:
    """The values of a field, read by a plain search that knows no limits and no settings."""
    block = case.message.removeprefix(b"\r\n").split(b"\r\n\r\n")[0]
    return [match.strip(b" \t") for match in re.findall(rb"(?im)^" + name + rb"[ \t]*:(.*?)\r?$", block)]


def _no_host(case: Case, theirs: Outcome) -> Outcome | None:
    needed = theirs.status == 0 and theirs.environ["SERVER_PROTOCOL"] >= "HTTP/1.1"
    return _REFUSED if needed and not _values(case, b"host") else None


def _bad_host(case: Case, theirs: Outcome) -> Outcome | None:
    bad = any(not _HOST.fullmatch(value) for value in _values(case, b"host"))
    return _REFUSED if bad and theirs.status in _REFUSED_LATER else None


def _connection_list(case: Case, theirs: Outcome) -> Outcome | None:
    values = b",".join(_values(case, b"connection")).lower()
    if theirs.status or b"," not in values or theirs.environ["REQUEST_METHOD"] == "CONNECT":
        return None
    tokens = [token.strip(b" \t") for token in values.split(b",")]
    lives = theirs.environ["SERVER_PROTOCOL"] >= "HTTP/1.1" or b"keep-alive" in tokens
    return replace(theirs, keep_alive=lives and b"close" not in tokens)


def _address_as_host(case: Case, theirs: Outcome) -> Outcome | None:
    match = _HOST.fullmatch((_values(case, b"host") or [b""])[0])
    if theirs.status or case.around.server != "/run/pinion.sock" or not match or not match[1].startswith(b"["):
        return None
    usual = b"443" if theirs.environ["wsgi.url_scheme"] == "https" else b"80"
    port = usual if match[2] is None else match[2]
    named = {"SERVER_NAME": match[1].decode(), "SERVER_PORT": port.decode()}
    return replace(theirs, environ=theirs.environ | named)


def _huge_length(case: Case, theirs: Outcome) -> Outcome | None:
    huge = any(len(value.lstrip(b"0")) > 19 for value in _values(case, b"content-length"))
    return _REFUSED if huge and theirs.status in (0, 500) else None


def _huge_chunk(case: Case, theirs: Outcome) -> Outcome | None:
    huge = re.search(rb"[0-9A-Fa-f]{16}", case.message.split(b"\r\n\r\n", 1)[-1])
    return replace(theirs, body_status=413) if huge and theirs.body_status == -1 else None


def _hopeless_chunk(case: Case, theirs: Outcome) -> Outcome | None:
    lone = re.search(rb"(?<!\r)\n", case.message.split(b"\r\n\r\n", 1)[-1])
    return replace(theirs, body_status=400) if lone and theirs.body_status == -1 else None


def _two_faults(case: Case, theirs: Outcome) -> Outcome | None:
    both = len(_values(case, b"content-length")) > 1 and _values(case, b"transfer-encoding")
    return Outcome(status=501) if both and theirs.status == 400 else None


def _trailers_by_default(case: Case, theirs: Outcome) -> Outcome | None:
    if theirs.status or not case.around.settings or "HTTP_TRANSFER_ENCODING" not in theirs.environ:
        return None
    message = head("Transfer-Encoding: chunked") + case.message.split(b"\r\n\r\n", 1)[1]
    usual = read_by_gunicorn(message, PLAIN)
    return replace(theirs, body=usual.body, body_status=usual.body_status, rest=usual.rest)


def _too_much_already(case: Case, theirs: Outcome) -> Outcome | None:
    settings = case.around.settings
    room = settings.get("limit_request_fields", 100) * (settings.get("limit_request_field_size", 8190) + 2) + 4
    block = case.message.removeprefix(b"\r\n").partition(b"\r\n")[2]
    return Outcome(status=431) if theirs.status == -1 and len(block) > room else None


def _fault_before_fold(case: Case, theirs: Outcome) -> Outcome | None:
    if theirs.status != 400 or not re.search(rb"\r\n[ \t]", case.message):
        return None
    odd = any(value.lower() != b"100-continue" for value in _values(case, b"expect"))
    return Outcome(status=417 if odd else 431)


DIFFERENCES = [
    Difference("refuse HTTP/1.1 without Host", "RFC 9112 section 3.2", _no_host),
    Difference("refuse a Host that names no host", "RFC 9112 section 3.2", _bad_host),
    Difference("read Connection as a list, over all its fields", "RFC 9112 section 9.3", _connection_list),
    Difference("take an IPv6 Host apart at the right colon", "RFC 3986 section 3.2.2", _address_as_host),
    Difference("refuse a Content-Length beyond 64 bits", "RFC 9110 section 8.6", _huge_length),
    Difference("name the fault of a line before that of its folded end", "RFC 9112 section 5.2", _fault_before_fold),
    Difference("check trailers by the default settings", "RFC 9110 section 6.5.1", _trailers_by_default),
    Difference("refuse fields over the limit before the next byte", "RFC 6585 section 5", _too_much_already),
    Difference("refuse a chunk over the limit at its size line", "RFC 9110 section 15.5.14", _huge_chunk),
    Difference("refuse a bare LF in a size line before its end has come", "RFC 9112 section 2.2", _hopeless_chunk),
    Difference("of two faults in the framing name the coding", "RFC 9112 section 6.1", _two_faults),
]


def explanation(case: Case, theirs: Outcome, ours: Outcome) -> list[Difference] | None:
    """The differences that together lead from gunicorn's outcome to ours; None if none do."""
    reached: list[tuple[Outcome, list[Difference]]] = [(theirs, [])]
    for row in DIFFERENCES:
        for outcome, path in list(reached):
            changed = row.ours(case, outcome)
            if changed is not None and changed != outcome:
                reached.append((changed, [*path, row]))
    return next((path for outcome, path in reached if outcome == ours), None)
