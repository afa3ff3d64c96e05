"""Raw HTTP messages, as families of variants: `CASES` by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from tests.data.http import parts
from tests.data.http.outcome import Circumstances

PLAIN = Circumstances()
TRUSTED = Circumstances(peer=("127.0.0.1", 50_000))
TRUSTED_V6 = Circumstances(peer=("::1", 50_000, 0, 0), server=("::1", 8000, 0, 0))
UNIX = Circumstances(peer="", server="/run/pinion.sock")
CLIENTS = {"stranger": PLAIN, "proxy": TRUSTED, "proxy6": TRUSTED_V6, "socket": UNIX}


@dataclass(frozen=True, slots=True)
class Case:
    """A message and what surrounds it."""

    message: bytes
    around: Circumstances = PLAIN


def under(around: Circumstances = PLAIN, **settings) -> Circumstances:
    """Circumstances with gunicorn settings."""
    return replace(around, settings=settings)


def _cases():
    for method, setting in product(parts.METHODS, parts.METHOD_SETTINGS):
        around = under(**{setting: True}) if setting else PLAIN
        yield f"method {method} {setting}", Case(parts.head(line=f"{method} / HTTP/1.1"), around)
    for target, method in product(parts.TARGETS, ("GET", "OPTIONS", "CONNECT")):
        yield f"target {target[:40]} {len(target)} of {method}", Case(parts.head(line=f"{method} {target} HTTP/1.1"))
    for version, lenient in product(parts.VERSIONS, (False, True)):
        around = under(permit_unconventional_http_version=lenient)
        yield f"version {version} {lenient}", Case(parts.head(line=f"GET / {version}"), around)
    for name, message in parts.LINES.items():
        yield f"lines: {name}", Case(message)
    for (name, message), lenient in product(parts.FOLDS.items(), (False, True)):
        yield f"fold {name} {lenient}", Case(message, under(permit_obsolete_folding=lenient))
    for (name, field), lenient in product(parts.SPACES.items(), (False, True)):
        yield (
            f"space before colon {name} {lenient}",
            Case(parts.head(field) + b"abc", under(strip_header_spaces=lenient)),
        )
    for field in parts.FIELDS:
        yield f"field {field!r}", Case(parts.head(field))
    yield from _framing_cases()
    yield from _forwarding_cases()
    for (name, message), (setting, settings) in product(parts.LIMITS.items(), parts.LIMIT_SETTINGS.items()):
        yield f"limit {name}, {setting}", Case(message, under(**settings))


def _framing_cases():
    for length, version in product(parts.LENGTHS, ("1.1", "1.0")):
        line = f"POST / HTTP/{version}"
        yield f"length {length[:40]!r} {version}", Case(parts.head(f"Content-Length: {length}", line=line) + b"abc")
    for coding, version, length in product(parts.CODINGS, ("1.1", "1.0"), (None, "3")):
        fields = [f"Transfer-Encoding: {coding}", *([] if length is None else [f"Content-Length: {length}"])]
        message = parts.head(*fields, line=f"POST / HTTP/{version}") + b"3\r\nabc\r\n0\r\n\r\n"
        yield f"coding {coding!r} {version} {length}", Case(message)
    for value, version in product(parts.CONNECTIONS, ("1.1", "1.0", "1.3")):
        yield f"connection {value!r} {version}", Case(parts.head(f"Connection: {value}", line=f"GET / HTTP/{version}"))
    for value, version in product(parts.EXPECTS, ("1.1", "1.0")):
        fields = [f"Expect: {value}", "Content-Length: 3"]
        yield f"expect {value!r} {version}", Case(parts.head(*fields, line=f"POST / HTTP/{version}") + b"abc")
    for chunks in parts.CHUNKS:
        yield (
            f"chunks {chunks[:60]!r} {len(chunks)}",
            Case(parts.head("Transfer-Encoding: chunked") + chunks.encode("latin-1")),
        )


def _forwarding_cases():
    for host, (client, around), version in product(
        parts.HOSTS, (("stranger", PLAIN), ("socket", UNIX)), ("1.1", "1.0")
    ):
        yield f"host {host!r} {client} {version}", Case(parts.head(line=f"GET / HTTP/{version}", host=host), around)
    yield "no host, socket, 1.0", Case(parts.head(line="GET / HTTP/1.0", host=None), UNIX)
    yield "https host, socket", Case(parts.head("X-Forwarded-Proto: https"), UNIX)
    for field, (client, around), (name, settings) in product(
        parts.FORWARDED, CLIENTS.items(), parts.FORWARDING.items()
    ):
        yield f"forwarded {field!r} {client} {name}", Case(parts.head(field), under(around, **settings))
    for field, (name, settings) in product(parts.FORWARDED[:9], parts.NETWORKS.items()):
        yield f"networks {field!r} {name}", Case(parts.head(field), under(**settings))
    for prefix, target in product(("/pre", "/x"), ("/predict", "/pre", "/pre%20/a", "//predict", "*")):
        around = Circumstances(script_name=prefix)
        yield f"script name {prefix} {target}", Case(parts.head(line=f"OPTIONS {target} HTTP/1.1"), around)
        field = "SCRIPT_NAME: /pred"
        yield (
            f"script name {prefix} {target} and a field",
            Case(parts.head(field, line=f"OPTIONS {target} HTTP/1.1"), replace(around, peer=TRUSTED.peer)),
        )


CASES: dict[str, Case] = dict(_cases())
