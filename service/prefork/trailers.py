"""The fields behind a chunked body: checked, then thrown away (RFC 9110 section 6.5.1)."""

from __future__ import annotations

from service.prefork.fields import read_strictly
from service.prefork.refusals import Refusal
from service.prefork.request_line import shown

_FORBIDDEN = frozenset(("HOST", "CONTENT-LENGTH", "TRANSFER-ENCODING", "TRAILER", "AUTHORIZATION", "TE"))
_MOST_FIELDS = 100
_LONGEST_FIELD_BYTES = 8190


def check_trailers(lines: list[bytes]) -> None:
    """Checks trailers under gunicorn's default limits.

    Raises:
        Refusal: 400 for what isn't a field, or for one that comes too late there; 431.
    """
    kept = types = 0
    for line in lines:
        if kept == _MOST_FIELDS:
            raise Refusal(431, f"there are more than {_MOST_FIELDS} trailers: send none")
        name = read_strictly(line)[0].upper()
        if name in _FORBIDDEN:
            raise Refusal(400, f"the field {shown(name)} isn't allowed as a trailer: send it as a header field")
        if len(line) + 2 > _LONGEST_FIELD_BYTES:
            raise Refusal(431, f"the trailer {shown(name)} is larger than {_LONGEST_FIELD_BYTES} bytes: send none")
        types += name == "CONTENT-TYPE"
        if types > 1:
            raise Refusal(400, "expected one Content-Type field, got a second one as a trailer")
        kept += "_" not in name
