"""Random messages from the corpus's parts, by seed: the same seed gives the same messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from tests.data.http import corpus, parts
from tests.data.http.corpus import Case
from tests.data.http.outcome import Circumstances

_SETTINGS = [
    {},
    *({name: True} for name in parts.METHOD_SETTINGS if name),
    {"permit_unconventional_http_version": True},
    {"permit_obsolete_folding": True},
    {"strip_header_spaces": True},
    *parts.FORWARDING.values(),
    *parts.NETWORKS.values(),
    {"limit_request_fields": 4, "limit_request_field_size": 35, "limit_request_line": 24},
]
AROUND = [
    *(replace(client, settings=settings) for client in corpus.CLIENTS.values() for settings in _SETTINGS),
    Circumstances(script_name="/pre"),
    replace(corpus.TRUSTED, script_name="/pre"),
]
_USUAL_FIELDS = [
    "Accept: */*",
    "Content-Type: application/json",
    "Cookie: a=b",
    "Connection: keep-alive",
    "User-Agent: x/1.0",
    "Accept-Encoding: gzip, deflate",
]
_POOLS = {
    "Content-Length": [length for length in parts.LENGTHS if len(length) < 100],
    "Transfer-Encoding": parts.CODINGS,
    "Connection": parts.CONNECTIONS,
    "Expect": parts.EXPECTS,
    "Host": parts.HOSTS,
}
_USUAL_VERSIONS = ("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0")
_CHUNKED = ["Transfer-Encoding: chunked"]
_USUAL_BODIES = [
    ([], ""),
    (["Content-Length: 3"], "abc"),
    (["Content-Length: 3"], "abcGET / HTTP/1.1\r\n\r\n"),
    (_CHUNKED, "3\r\nabc\r\n0\r\n\r\n"),
    (_CHUNKED, "1;x=y\r\na\r\n02\r\nbc\r\n0\r\nX: y\r\n\r\nGET"),
]
_BYTES = b'\r\n\t :;,="\\/?#%_-.\0\x01\x7f\x80\xa0\xe4\xffaZ09[]'


def generate(seed: int, count: int) -> Iterator[Case]:
    """Messages with their circumstances; a part of them as clients send them, the others damaged."""
    random = Random(seed)
    for _ in range(count):
        message = _message(random, oddity=random.choice((0.02, 0.1, 0.4)))
        for _ in range(random.choice((0, 0, 0, 0, 0, 1, 2))):
            message = _mutated(message, random)
        yield Case(message, random.choice(AROUND))


def _message(random: Random, oddity: float) -> bytes:
    """A message whose parts are unusual with the probability `oddity`."""

    def part(usual: Sequence[str], odd: Sequence[str]) -> str:
        return random.choice(odd if random.random() < oddity else usual)

    def field() -> str:
        name = random.choice(list(_POOLS))
        value = f"{random.choice((name, name.lower(), name.upper()))}: {random.choice(_POOLS[name])}"
        return part([*_USUAL_FIELDS, random.choice(parts.FORWARDED)], [value, random.choice(parts.FIELDS)])

    target = part(("/predict", "/pre/a%20b?c=d", "/pre/v2/models/a:b"), parts.TARGETS)
    line = f"{part(('GET', 'POST'), parts.METHODS)} {target} {part(_USUAL_VERSIONS, parts.VERSIONS)}"
    framing, body = random.choice(_USUAL_BODIES)
    fields = [*{field() for _ in range(random.randrange(7))}, *framing]
    fields.sort(key=lambda _: random.random())
    host = part(("a.example", "a.example:81", "127.0.0.1:8000"), ("", "[::1]:8000")) if random.random() < 0.95 else None
    return parts.head(*fields, line=line, host=host) + part([body], parts.CHUNKS).encode("latin-1")


def _mutated(message: bytes, random: Random) -> bytes:
    at = random.randrange(len(message) or 1)
    kind = random.randrange(6)
    if kind == 0:
        return message[:at] + message[at + random.randrange(1, 4) :]
    if kind == 1:
        return message[:at] + bytes(random.choices(_BYTES, k=random.randrange(1, 4))) + message[at:]
    if kind == 2:
        return message[:at] + bytes([random.choice(_BYTES)]) + message[at + 1 :]
    if kind == 3:
        return message[:at]
    lines = message.split(b"\r\n")
    if kind == 4:
        lines.insert(random.randrange(len(lines)), random.choice(lines))
    else:
        random.shuffle(lines)
    return b"\r\n".join(lines)
