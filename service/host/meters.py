"""Rates that hold over all workers: a mapping made before the fork, a row of words for each who is metered.

A meter is a token bucket kept as one number, the monotonic time in nanoseconds at which it will be full again
(the generic cell rate algorithm, ITU-T I.371). Every slot writes that time into a word of its own, and the latest
word of a row counts. So nobody takes a lock, a worker that was stopped in the middle can't take anything back, the
word of a dead one lies in the past soon, and nothing has to be cleared. Two workers that let in a request of the
same row within the same microsecond count one instead of two.

Layout, in words of 64 bits: columns in use; for each row whom it belongs to; the rows, a word for each slot.
"""

from __future__ import annotations

import mmap
import os

OWN_ROWS, SHARED_ROWS = 4096, 4096
"""Rows that are given by number, and behind them those that are found by a tag."""

_COLUMNS = 256
_ROWS = OWN_ROWS + SHARED_ROWS
_TAGS = 1
_TIMES = _TAGS + _ROWS
_NEIGHBOURS = 4
BURST_NS = 50_000_000
"""What may come at once: 5 % of a second's rate, one request at least."""


class Meters:
    """The mapping; every process that was forked after its making sees the same words.

    Attributes:
        seed: for the hashes that make tags, unknown outside, so that nobody chooses whose row he shares.
    """

    def __init__(self) -> None:
        # An anonymous mapping takes memory only for the pages that are touched.
        self._map = mmap.mmap(-1, (_TIMES + _ROWS * _COLUMNS) * 8)
        self._words = memoryview(self._map).cast("q")
        self._words[0] = 1
        self.seed = os.urandom(16)

    def open_column(self, slot: int) -> None:
        """Lets readers look at the word of a slot; only by the master, before the worker is forked."""
        self._words[0] = max(self._words[0], slot % _COLUMNS + 1)

    def take(self, row: int, slot: int, interval_ns: int, now_ns: int) -> int:
        """Takes a token out of a row's bucket.

        Args:
            row: of the one who asks.
            slot: of this process.
            interval_ns: after which a token comes back, the inverse of the rate.
            now_ns: `time.monotonic_ns()`.

        Returns:
            0, or how many nanoseconds later there would be one; then none was taken.
        """
        words = self._words
        first = _TIMES + row * _COLUMNS
        full_ns = max(words[first : first + words[0]].tolist())
        ahead_ns = (full_ns - now_ns if full_ns > now_ns else 0) + interval_ns
        too_far_ns = ahead_ns - max(BURST_NS, interval_ns)
        if too_far_ns > 0:
            return too_far_ns
        words[first + slot % _COLUMNS] = now_ns + ahead_ns
        return 0

    def row_of(self, tag: int, now_ns: int) -> int:
        """The row of one who has no number: where his tag stands, else one whose bucket is full.

        Where all of the few that he may have are in use, he shares one.

        Args:
            tag: a hash, from 1 to 2**63 - 1.
            now_ns: as above.
        """
        words = self._words
        rows = [OWN_ROWS + (tag + step) % SHARED_ROWS for step in range(_NEIGHBOURS)]
        for row in rows:
            if words[_TAGS + row] == tag:
                return row
        for row in rows:
            first = _TIMES + row * _COLUMNS
            if max(words[first : first + words[0]].tolist()) <= now_ns:
                words[_TAGS + row] = tag
                return row
        return rows[0]
