"""API keys, `<id>.<secret>`, and the lines in which a service keeps them.

    <id> blake2b:<salt>:<hash> <scopes> [models=<names>] [rate=<requests a second>]

A secret is 256 random bits, so a fast hash keeps it: BLAKE2b keyed with the line's salt. Names of models may have
`*` and `?` in them; lists have commas.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b

from service.errors import ConfigurationError
from service.host.meters import OWN_ROWS

SCOPES = ("infer", "metadata", "metrics", "admin")

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEPT = re.compile(r"blake2b:([0-9a-f]{32}):([0-9a-f]{64})")
_SALT_BYTES, _HASH_BYTES, _SECRET_BYTES = 16, 32, 32
_FORM = "`<id> blake2b:<salt>:<hash> <scopes> [models=…] [rate=…]`, as `python -m service key` prints it"
_FIRST_RIGHTS = 3


@dataclass(frozen=True, slots=True)
class Principal:
    """One who has a key.

    Attributes:
        key: id of the key, which is no secret.
        scopes: what it is good for.
        models: patterns of the models that it is good for; None for all.
        row: of its meter.
        requests_per_s: its own limit; None for that of the settings.
    """

    key: str
    scopes: frozenset[str]
    models: tuple[str, ...] | None
    row: int
    requests_per_s: float | None

    def may_use(self, model: str) -> bool:
        """Whether the key is good for a model of this name."""
        return self.models is None or any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as it is kept; `principal` is None for the one that stands for all that aren't known."""

    salt: bytes
    digest: bytes
    principal: Principal | None


def nobody() -> Entry:
    """What an unknown id is compared with, so that it costs what a wrong secret costs."""
    return Entry(secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_HASH_BYTES), None)


def digest_of(secret: str, salt: bytes) -> bytes:
    """The hash of a secret."""
    return blake2b(secret.encode("utf-8", "replace"), key=salt, digest_size=_HASH_BYTES).digest()


def make(identity: str, scopes: Collection[str], models: str | None, requests_per_s: float | None) -> tuple[str, str]:
    """A new key, and the line that keeps it.

    Raises:
        ConfigurationError: no id, scope, list of models or rate could be written so.
    """
    secret, salt = secrets.token_urlsafe(_SECRET_BYTES), secrets.token_bytes(_SALT_BYTES)
    words = [identity, f"blake2b:{salt.hex()}:{digest_of(secret, salt).hex()}", ",".join(scopes)]
    if models is not None:
        words.append(f"models={models}")
    if requests_per_s is not None:
        words.append(f"rate={requests_per_s:g}")
    line = " ".join(words)
    read(line, "the new key")
    return f"{identity}.{secret}", line


def read(text: str, where: str) -> dict[str, Entry]:
    """The keys of a text by their ids; lines end with a break or `;`, and `#` begins a remark.

    Args:
        text: of a file or a variable.
        where: it is from, for the errors. They never repeat what may be a secret in the wrong place.

    Raises:
        ConfigurationError: with every line that can't be read.
    """
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for number, raw in enumerate(re.split(r"[\n;]", text), 1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        try:
            entry = _entry(words, len(entries))
        except ValueError as fault:
            problems.append(f"{where}, line {number}: expected {fault}")
            continue
        if words[0] in entries:
            problems.append(f"{where}, line {number}: expected each id once, got '{words[0]}' again")
        entries[words[0]] = entry
    if len(entries) > OWN_ROWS:
        problems.append(f"{where}: expected {OWN_ROWS} keys at most, got {len(entries)}")
    if problems:
        raise ConfigurationError(problems)
    return entries


def _entry(words: list[str], row: int) -> Entry:
    kept = _KEPT.fullmatch(words[1]) if len(words) >= _FIRST_RIGHTS else None
    if kept is None or not _ID.fullmatch(words[0]):
        raise ValueError(f"{_FORM}; got {len(words)} word(s) that aren't it")
    scopes = frozenset(words[2].split(","))
    if not scopes.issubset(SCOPES):
        raise ValueError(f"scopes of {', '.join(SCOPES)}, with commas, as the third word of '{words[0]}'")
    models: tuple[str, ...] | None = None
    requests_per_s: float | None = None
    for word in words[_FIRST_RIGHTS:]:
        name, _, value = word.partition("=")
        if name == "models" and value:
            models = tuple(pattern for pattern in value.split(",") if pattern)
        elif name == "rate":
            requests_per_s = _rate(words[0], value)
        else:
            raise ValueError(f"`models=…` or `rate=…` behind the scopes of '{words[0]}'")
    principal = Principal(words[0], scopes, models, row, requests_per_s)
    return Entry(bytes.fromhex(kept[1]), bytes.fromhex(kept[2]), principal)


def _rate(identity: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"a number above 0 as the rate of '{identity}'")
    return rate
