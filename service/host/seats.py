"""Who sits where: a slot, unique among living workers, and a lane.

The slot names the worker's metrics files and its record on the board; the lane is a set of cores. Both follow
from the workers that live, so nothing has to be freed when one dies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one worker sits.

    Attributes:
        slot: the lowest number that no living worker had when this one was made.
        lane: index into the lanes of the plan.
        age: gunicorn's counter of workers; a newer worker has a higher one.
    """

    slot: int
    lane: int
    age: int


def next_seat(taken: Collection[Seat], lanes: int, age: int) -> Seat:
    """The seat of a new worker: the emptiest lane, among equals the one whose newest worker is oldest.

    That is the lane of the worker that crashed, or of the one that a reload retires next.

    Args:
        taken: seats of the living workers.
        lanes: number of lanes.
        age: of the new worker.
    """
    slots = {seat.slot for seat in taken}

    def need(lane: int) -> tuple[int, int]:
        ages = [seat.age for seat in taken if seat.lane == lane]
        return len(ages), max(ages, default=0)

    slot = next(number for number in count() if number not in slots)
    return Seat(slot, min(range(lanes), key=need), age)


def deal(seats: Collection[Seat], lanes: int) -> tuple[Seat, ...]:
    """Deals a new number of lanes out to the living workers.

    The newest get one each in order of age. Older ones are about to retire and share the lanes until then.

    Returns:
        The seats by age, with their new lanes.
    """
    by_age = sorted(seats, key=lambda seat: seat.age)
    retiring = max(0, len(by_age) - lanes)
    return tuple(dataclasses.replace(seat, lane=(number - retiring) % lanes) for number, seat in enumerate(by_age))
