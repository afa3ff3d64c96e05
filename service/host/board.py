"""The board: one anonymous shared mapping, made before the fork, with a fixed record for each slot.

Layout: `SLOTS` records of `_WORDS` words of 64 bits, in the machine's own order:

    word 0   pid << 8 | state     written by the worker; by the master once the worker is dead
    word 1   generation << 32 | lane << 16 | threads     written by the master only
    word 2   connections << 8 | running     written by the worker: how much it has to do
    word 3   whether counts of that worker have not been written to its metrics files; written by the worker
    word 4…  zero, room for what later parts write

A word is aligned and written by one store, so a reader sees the old one or the new one, never a half. What has
to fit together stands in one word; no reader needs two words of one moment.
"""

from __future__ import annotations

import enum
import mmap
from dataclasses import dataclass

SLOTS = 1024
"""Living workers at most. A reload doubles them for a while."""

_WORDS = 32
_STATE, _DEAL, _LOAD, _OWES = 0, 1, 2, 3
_BYTE = 0xFF
_SHORT = 0xFFFF


class State(enum.IntEnum):
    """Life of a worker as its record tells it."""

    EMPTY = 0
    BOOTING = 1
    READY = 2
    DRAINING = 3


@dataclass(frozen=True, slots=True)
class Deal:
    """What the master dealt to a slot.

    Attributes:
        generation: counts how often the lanes have been cut; 0 before the first time.
        lane: index into the lanes of the plan.
        threads: that run models.
    """

    generation: int
    lane: int
    threads: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a worker has to do.

    Attributes:
        connections: open ones.
        running: whether a model runs.
    """

    connections: int
    running: bool


@dataclass(frozen=True, slots=True)
class Record:
    """One slot as a reader sees it."""

    slot: int
    pid: int
    state: State
    deal: Deal


class Board:
    """The mapping; every process that was forked after its making sees the same words."""

    def __init__(self) -> None:
        # An anonymous mapping takes memory only for the pages that are written.
        self._map = mmap.mmap(-1, SLOTS * _WORDS * 8)
        self._words = memoryview(self._map).cast("q")

    def write_state(self, slot: int, pid: int, state: State) -> None:
        """Writes who sits in a slot and how far it is; only by that process, or for a dead one by the master."""
        self._words[self._at(slot) + _STATE] = pid << 8 | state

    def write_deal(self, slot: int, deal: Deal) -> None:
        """Writes what a slot was dealt; only by the master."""
        word = deal.generation << 32 | (deal.lane & _SHORT) << 16 | (deal.threads & _SHORT)
        self._words[self._at(slot) + _DEAL] = word

    def write_load(self, slot: int, connections: int, running: int) -> None:
        """Writes what the worker in a slot has to do; only by that process. On the way of every request."""
        self._words[slot * _WORDS + _LOAD] = connections << 8 | running

    def read_load(self, slot: int) -> Load:
        """What the worker in a slot has to do."""
        word = self._words[self._at(slot) + _LOAD]
        return Load(word >> 8, bool(word & _BYTE))

    def write_owes(self, slot: int, *, owes: bool) -> None:
        """Writes whether the worker in a slot has counts that its files lack; by it, for a new one by the master."""
        self._words[self._at(slot) + _OWES] = owes

    def owes(self, slot: int) -> bool:
        """Whether the worker in a slot has counts that its metrics files lack."""
        return bool(self._words[self._at(slot) + _OWES])

    def read(self, slot: int) -> Record:
        """One slot, whatever its state."""
        word = self._words[self._at(slot) + _STATE]
        return Record(slot, word >> 8, State(word & _BYTE), self.read_deal(slot))

    def read_deal(self, slot: int) -> Deal:
        """What a slot was dealt last."""
        word = self._words[self._at(slot) + _DEAL]
        return Deal(word >> 32, word >> 16 & _SHORT, word & _SHORT)

    def living(self) -> tuple[Record, ...]:
        """Slots that somebody sits in, by slot."""
        states = self._words[_STATE::_WORDS].tolist()
        return tuple(self.read(slot) for slot, word in enumerate(states) if word & _BYTE != State.EMPTY)

    def ready(self) -> tuple[Record, ...]:
        """Living workers that take requests, by slot."""
        return tuple(record for record in self.living() if record.state is State.READY)

    def _at(self, slot: int) -> int:
        if not 0 <= slot < SLOTS:
            raise IndexError(f"slot {slot}: expected 0 to {SLOTS - 1}; too many workers are alive at once")
        return slot * _WORDS
