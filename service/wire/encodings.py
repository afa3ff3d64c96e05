"""Content encodings, both ways: gzip and deflate (RFC 9110 section 8.4)."""

from __future__ import annotations

import re
import zlib

from service.errors import BodyTooLarge, MalformedBody, UnsupportedMedia

_GZIP, _ZLIB, _RAW = 31, 15, -15
_FASTEST = 1
_ACCEPTED = (("Accept-Encoding", "gzip, deflate"),)
_MOST_ENCODINGS = 3
_WEIGHT = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_MOST_MEMBERS = 10_000
_PART_BYTES = 1 << 16


def decompress(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The body without its encodings, the last applied taken off first.

    Raises:
        UnsupportedMedia: an encoding that isn't gzip, deflate or identity, or more of them than anyone needs.
        MalformedBody: a stream that is cut, followed by other bytes, or none at all.
        BodyTooLarge: more than the limit comes out; nothing beyond it is produced.
    """
    names = [part.strip().lower() for part in encoding.split(",")]
    if len(names) > _MOST_ENCODINGS:
        raise UnsupportedMedia(
            f"Content-Encoding: expected at most {_MOST_ENCODINGS} encodings, got {len(names)}", headers=_ACCEPTED
        )
    for name in reversed(names):
        if name in ("gzip", "x-gzip"):
            body = _gunzip(body, limit_bytes)
        elif name == "deflate":
            body = _inflate(body, limit_bytes)
        elif name not in ("identity", ""):
            raise UnsupportedMedia(
                f"Content-Encoding: expected gzip, deflate or identity, got '{name[:40]}'",
                headers=_ACCEPTED,
            )
    return body


def _gunzip(body: bytes, limit_bytes: int) -> bytes:
    """Every member of a gzip file (RFC 1952 section 2.2)."""
    parts: list[bytes] = []
    position = size_bytes = 0
    while not parts or position < len(body):
        if len(parts) == _MOST_MEMBERS:
            raise MalformedBody(f"the gzip body has more than {_MOST_MEMBERS} members; send it as one")
        part, position = _stream(body, position, _GZIP, limit_bytes, size_bytes)
        parts.append(part)
        size_bytes += len(part)
    return b"".join(parts)


def _inflate(body: bytes, limit_bytes: int) -> bytes:
    """A zlib stream (RFC 1950), or the bare deflate data that some clients send under this name."""
    wrapped = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 section 2.2
    out, end = _stream(body, 0, _ZLIB if wrapped else _RAW, limit_bytes)
    if end < len(body):
        raise MalformedBody(f"the deflate body is followed by {len(body) - end} other bytes")
    return out


def _stream(body: bytes, start: int, window: int, limit_bytes: int, used_bytes: int = 0) -> tuple[bytes, int]:
    """One compressed stream, and where it ends.

    It is fed in parts: zlib copies what is left after a stream, which for many short ones in a large body would be
    most of the body each time.
    """
    name = "gzip" if window == _GZIP else "deflate"
    decoder = zlib.decompressobj(window)
    out = bytearray()
    room_bytes = limit_bytes - used_bytes
    view = memoryview(body)
    while not decoder.eof and start < len(body):
        part = view[start : start + _PART_BYTES]
        try:
            out += decoder.decompress(part, room_bytes + 1 - len(out))
        except zlib.error as fault:
            raise MalformedBody(f"the body is no valid {name} stream: {fault}") from None
        if len(out) > room_bytes:
            raise BodyTooLarge(
                f"the decompressed body is larger than the limit of {limit_bytes} bytes (PINION_MAX_BODY_BYTES)",
                expected=limit_bytes,
            )
        start += len(part) - len(decoder.unused_data)
    if not decoder.eof:
        raise MalformedBody(f"the {name} body is cut off")
    return bytes(out), start


def choose(accepted: str | None) -> str | None:
    """The encoding for an answer by `Accept-Encoding`, None for none (RFC 9110 section 12.5.3)."""
    weights: dict[str, float] = {}
    for part in (accepted or "").lower().split(","):
        name, _, parameters = part.partition(";")
        weights[name.strip()] = _weight(parameters)
    anything = weights.get("*", 0.0)
    weight, name = max((weights.get(name, anything), name) for name in ("deflate", "gzip"))
    return name if weight > 0 and weight >= weights.get("identity", 0.0) else None


def _weight(parameters: str) -> float:
    """The value of `q`; a weight that can't be read refuses the encoding, which is always safe."""
    key, _, value = parameters.strip().partition("=")
    if key.strip() != "q":
        return 1.0
    return float(value) if _WEIGHT.fullmatch(value.strip()) else 0.0


def compress(body: bytes, encoding: str) -> bytes:
    """The body in gzip or deflate, at the level that costs the least time."""
    encoder = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP if encoding == "gzip" else _ZLIB)
    return encoder.compress(body) + encoder.flush()
