"""The keys of a service while it runs: found by their ids, read anew when their file changes."""

from __future__ import annotations

import logging
import os
import time
from hmac import compare_digest
from pathlib import Path

from service.errors import ConfigurationError
from service.guard.keys import Entry, Principal, digest_of, nobody, read

_log = logging.getLogger(__name__)

_UNWATCHED_S = 2.5
_FILE, _VARIABLE = "PINION_API_KEYS_FILE", "PINION_API_KEYS"

_Seen = tuple[int, int, int, int]
"""Device, inode, time of change in nanoseconds and size of a file."""


class Keyring:
    """Those who have keys. A worker's second thread calls `look`; without one, requests do so now and then.

    Attributes:
        entries: by id; another dictionary after each change. None if no keys could ever be read: then nobody is let
            in.
    """

    def __init__(self, path: Path | None, text: str | None) -> None:
        """Reads the keys; a fault of theirs is logged and doesn't end the process.

        Args:
            path: of the file, None for none.
            text: of the variable, None for none.
        """
        self._path, self._text = path, text
        self._nobody = nobody()
        self._seen: _Seen | str | None = None
        self._due_s = 0.0
        self.entries: dict[str, Entry] | None = None
        self.look()

    def verify(self, presented: str) -> Principal | None:
        """Who has this key; None for nobody. Takes the same time whatever is wrong with it."""
        if time.monotonic() > self._due_s:
            self.look()
        identity, _, secret = presented.partition(".")
        entry = (self.entries or {}).get(identity, self._nobody)
        return entry.principal if compare_digest(digest_of(secret, entry.salt), entry.digest) else None

    def look(self) -> None:
        """Reads the keys if the file isn't the one that was read last; if it can't be used the old ones stay."""
        self._due_s = time.monotonic() + _UNWATCHED_S
        seen = self._look_at_file()
        if seen == self._seen and self._seen is not None:
            return
        first, self._seen = self.entries is None, seen
        try:
            self.entries = read_all(self._path, self._text)
        except ConfigurationError as fault:
            stays = "nobody is let in until they can be" if first else "those read before stay in use"
            _log.error("API keys can't be read, %s: %s", stays, "; ".join(fault.problems))
        else:
            _log.info("API keys: %d read", len(self.entries))

    def _look_at_file(self) -> _Seen | str:
        if self._path is None:
            return "no file"
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a Path's own costs twice as much
        except OSError as fault:
            return str(fault)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def read_all(path: Path | None, text: str | None) -> dict[str, Entry]:
    """The keys of a file and a variable.

    Raises:
        ConfigurationError: with everything that is wrong with them.
    """
    text = f"{text};" if text else ""
    before = read(text, _VARIABLE)
    if path is None:
        return before
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeError) as fault:
        reason = getattr(fault, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError([f"{_FILE}: {path} can't be read: {reason}"]) from None
    read(content, f"{_FILE} {path}")
    # Again as one text, so that every key has a number of its own.
    return read(text + content, f"{_VARIABLE} and {_FILE}")


def check(path: Path | None, text: str | None) -> list[str]:
    """A sentence for each thing that is wrong with the keys."""
    try:
        read_all(path, text)
    except ConfigurationError as fault:
        return fault.problems
    return []
