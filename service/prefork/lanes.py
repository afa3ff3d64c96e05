"""The master's part of lanes: cuts them, gives seats to new workers, and moves the living when the number changes."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import Any

from service.host import affinity, place
from service.host.board import Board, Deal, State
from service.host.cgroup import format_cpu_list
from service.host.meters import Meters
from service.host.plan import Lane, Plan, make_plan
from service.host.seats import deal, next_seat
from service.host.topology import read_machine

_BOOT_WAIT_S = 1.0
_BOOT_POLL_S = 0.001


class Lanes:
    """State of one master; workers are gunicorn's, with a `seat` each.

    The number of lanes is a target of its own: a crash and a reload leave it alone, and with it every lane.

    Attributes:
        board: shared with all workers that are forked later.
        meters: of rates, shared likewise.
        plan: the lanes as they are cut now.
        generation: how often they have been cut.
    """

    def __init__(self) -> None:
        self.board = Board()
        self.meters = Meters()
        self.plan = Plan((), (), ())
        self.generation = 0

    def cut(self, number: int, workers: Iterable[Any], log: Any) -> bool:
        """Cuts the machine into lanes and moves the living workers; does nothing if the lanes stay the same.

        Args:
            number: of lanes.
            workers: living ones.
            log: gunicorn's.

        Returns:
            Whether the lanes changed.
        """
        plan = make_plan(read_machine(), number)
        if plan.lanes == self.plan.lanes:
            return False
        self.plan = plan
        self.generation += 1
        by_age = {worker.age: worker for worker in workers}
        for seat in deal([worker.seat for worker in by_age.values()], number):
            by_age[seat.age].seat = seat
        self._move(by_age.values(), log)
        return True

    def seat(self, worker: Any, living: Collection[Any]) -> None:
        """Gives a worker that is about to be forked its seat, and writes it on the board."""
        worker.seat = next_seat([other.seat for other in living], len(self.plan.lanes), worker.age)
        self.board.write_state(worker.seat.slot, 0, State.BOOTING)
        self.board.write_owes(worker.seat.slot, owes=False)
        self.meters.open_column(worker.seat.slot)
        self._write(worker)

    def sit(self, worker: Any, master_pid: int, log: Any) -> None:
        """Pins this process, a new worker, to its lane and makes its place known; before any thread is started."""
        lane = self._lane(worker)
        try:
            affinity.pin(os.getpid(), lane.cpus)
        except OSError as fault:
            log.warning("Worker %s runs unpinned: CPUs %s: %s", worker.pid, format_cpu_list(lane.cpus), fault)
        slot = worker.seat.slot
        metrics_id, timeout_s = f"{master_pid}-{slot}", float(worker.cfg.timeout)
        place.take(
            place.Place(slot, metrics_id, lane.cpus, lane.threads, self.board, self.generation, timeout_s, self.meters)
        )

    def leave(self, worker: Any) -> None:
        """Empties the record of a worker that is dead."""
        self.board.write_state(worker.seat.slot, 0, State.EMPTY)

    def lines(self) -> list[str]:
        """The lanes, a line each."""
        return [
            f"Lane {number}: CPUs {format_cpu_list(lane.cpus)}, threads {lane.threads}"
            for number, lane in enumerate(self.plan.lanes)
        ]

    def _lane(self, worker: Any) -> Lane:
        number: int = worker.seat.lane
        return self.plan.lanes[number]

    def _write(self, worker: Any) -> None:
        self.board.write_deal(worker.seat.slot, Deal(self.generation, worker.seat.lane, self._lane(worker).threads))

    def _move(self, workers: Iterable[Any], log: Any) -> None:
        deadline_s = time.monotonic() + _BOOT_WAIT_S
        for worker in workers:
            # A worker pins itself first. Moved before that, it would pin itself to the lane it had.
            while self.board.read(worker.seat.slot).pid != worker.pid and time.monotonic() < deadline_s:
                time.sleep(_BOOT_POLL_S)
            lane = self._lane(worker)
            try:
                affinity.pin(worker.pid, lane.cpus)
            except ProcessLookupError:
                continue
            except OSError as fault:
                log.warning("Worker %s keeps its cores: CPUs %s: %s", worker.pid, format_cpu_list(lane.cpus), fault)
            self._write(worker)
