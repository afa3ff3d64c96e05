"""Polling for a while before sleeping, where it pays.

A sleep and a wake-up cost as much CPU as the polling between two requests that follow each other closely, and
more time. Where gaps are longer it would only burn, so it is done while the last gaps were short.
"""

from __future__ import annotations

import time

_TRUST = 8


class BusyPoll:
    """Decides whether the loop polls again instead of sleeping."""

    __slots__ = ("_last_work_s", "_limit_s", "_trust", "burned_s")

    def __init__(self, limit_s: float) -> None:
        """Polls at most `limit_s` after work; 0 turns it off."""
        self._limit_s = limit_s
        self._last_work_s = 0.0
        self._trust = 0
        self.burned_s = 0.0

    def worked(self, turn_began_s: float, answered: int) -> None:
        """Takes note of a turn: how long it had to wait for its requests, and when it was over."""
        if not answered or not self._limit_s:
            return
        gap_s = turn_began_s - self._last_work_s
        if gap_s < self._limit_s:
            self._trust = min(self._trust + 1, _TRUST)
        else:
            self._trust = max(self._trust - 2, 0)
        self._last_work_s = time.monotonic()

    def wanted(self) -> bool:
        """Whether the next request is likely to come before a sleep would have paid."""
        return self._trust > 0 and time.monotonic() - self._last_work_s < self._limit_s
