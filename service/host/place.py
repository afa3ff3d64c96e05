"""What this process was given: slot, cores, threads, board.

The fork hooks give it (`take`). Without them, in a test client or under another server, a process plans the
machine for itself alone, once a process id.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass

from service.host.board import Board, State
from service.host.meters import Meters
from service.host.plan import make_plan
from service.host.topology import read_machine


@dataclass(frozen=True, slots=True)
class Place:
    """What one process was given.

    Attributes:
        slot: its record on the board; None without hooks.
        metrics_id: names its metrics files; unique among living processes.
        lane_cpus: CPUs that its threads may run on.
        threads: that run models.
        board: None without hooks.
        generation: of the deal that gave the lane.
        kill_after_s: without a beat after which the master kills it (gunicorn's `timeout`); 0 for never.
        meters: of rates, shared with the other workers; None without hooks.
    """

    slot: int | None
    metrics_id: str
    lane_cpus: tuple[int, ...]
    threads: int
    board: Board | None
    generation: int = 0
    kill_after_s: float = 0.0
    meters: Meters | None = None


class _Held:
    """The place of the process that has this pid; a fork doesn't inherit it."""

    pid: int = 0
    place: Place | None = None
    is_draining: bool = False


def take(place: Place) -> None:
    """Gives this process its place; it boots from now on."""
    _hold(place)
    _write(place, State.BOOTING)


def current() -> Place:
    """The place of this process, with the lane that it was dealt last."""
    place = _Held.place
    if place is None or _Held.pid != os.getpid():
        return _hold(_alone())
    if place.board is None or place.slot is None:
        return place
    deal = place.board.read_deal(place.slot)
    if deal.generation == place.generation:
        return place
    # The master sets the mask first and writes the board then, so the mask is that of the deal or a newer one.
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    return _hold(dataclasses.replace(place, lane_cpus=cpus, threads=deal.threads, generation=deal.generation))


def metrics_id() -> str:
    """Names this process's metrics files; asked at every write of a series, so it doesn't look at the deal."""
    place = _Held.place
    if place is None or _Held.pid != os.getpid():
        place = current()
    return place.metrics_id


def ready() -> None:
    """Writes on the board that this process takes requests, unless it has been told to stop."""
    _write(current(), State.READY)
    # Looked at after the write: the signal may come between the two.
    if draining():
        _write(current(), State.DRAINING)


def owe(*, owes: bool) -> None:
    """Says whether this process has counts that its metrics files lack."""
    place = current()
    if place.board is not None and place.slot is not None:
        place.board.write_owes(place.slot, owes=owes)


def others_owe() -> bool:
    """Whether another living worker has counts that its metrics files lack."""
    place = current()
    if place.board is None:
        return False
    return any(record.slot != place.slot and place.board.owes(record.slot) for record in place.board.living())


def drain() -> None:
    """Says that this process is being stopped; safe in a signal handler."""
    place = current()
    _Held.is_draining = True
    _write(place, State.DRAINING)


def draining() -> bool:
    """Whether this process is being stopped."""
    return _Held.is_draining and _Held.pid == os.getpid()


def _hold(place: Place) -> Place:
    if _Held.pid != os.getpid():
        _Held.is_draining = False
    _Held.pid, _Held.place = os.getpid(), place
    return place


def _alone() -> Place:
    lane = make_plan(read_machine(), 1).lanes[0]
    return Place(None, str(os.getpid()), lane.cpus, lane.threads, None)


def _write(place: Place, state: State) -> None:
    if place.board is not None and place.slot is not None:
        place.board.write_state(place.slot, os.getpid(), state)
