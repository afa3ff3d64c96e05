import random

import pytest

from service.host.seats import Seat, deal, next_seat


class Master:
    """gunicorn's bookkeeping of workers, with our seats: what the arbiter does for each signal."""

    def __init__(self, workers):
        self.seats = []
        self.age = 0
        self.configured = self.lanes = self.wanted = workers
        self.manage()

    def spawn(self):
        self.age += 1
        self.seats.append(next_seat(self.seats, self.lanes, self.age))
        assert len({seat.slot for seat in self.seats}) == len(self.seats)

    def manage(self):
        while len(self.seats) < self.wanted:
            self.spawn()
        self.seats.sort(key=lambda seat: seat.age)
        self.seats = self.seats[len(self.seats) - self.wanted :]

    def resize(self, wanted):
        self.wanted = wanted
        if wanted != self.lanes:
            self.lanes = wanted
            self.seats = list(deal(self.seats, wanted))

    def hup(self):
        self.resize(self.configured)
        for _ in range(self.configured):
            self.spawn()
        self.manage()

    def crash(self, number):
        self.seats.pop(number % len(self.seats))
        self.manage()

    def step(self, signal):
        if signal == "ttin":
            self.resize(self.wanted + 1)
        elif signal == "ttou":
            self.resize(max(1, self.wanted - 1))
        self.manage()

    def lanes_taken(self):
        return sorted(seat.lane for seat in self.seats)


def test_the_first_workers_sit_in_order():
    assert [(seat.slot, seat.lane) for seat in Master(3).seats] == [(0, 0), (1, 1), (2, 2)]


def test_a_crashed_workers_successor_takes_its_lane_and_slot():
    master = Master(3)
    master.crash(1)
    assert master.seats[-1] == Seat(slot=1, lane=1, age=4)


def test_a_reload_gives_every_lane_to_a_new_worker_in_another_slot():
    master = Master(3)
    master.hup()
    assert [(seat.slot, seat.lane) for seat in master.seats] == [(3, 0), (4, 1), (5, 2)]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_three_more_and_three_fewer_workers_leave_each_lane_taken_once(workers):
    master = Master(workers)
    for count in (1, 2, 3):
        master.step("ttin")
        assert master.lanes_taken() == list(range(workers + count))
    for count in (2, 1, 0):
        master.step("ttou")
        assert master.lanes_taken() == list(range(workers + count))


@pytest.mark.parametrize("seed", range(50))
def test_after_any_history_each_lane_is_taken_once_and_slots_stay_low(seed):
    chance = random.Random(seed)
    master = Master(chance.randint(1, 6))
    for _ in range(200):
        what = chance.choice(("ttin", "ttou", "hup", "crash"))
        if what == "hup":
            master.configured = chance.randint(1, 6)
            master.hup()
        elif what == "crash":
            master.crash(chance.randrange(100))
        elif master.wanted < 12 or what == "ttou":
            master.step(what)
        assert master.lanes_taken() == list(range(master.wanted))
        assert max(seat.slot for seat in master.seats) < 24


def test_retiring_workers_share_the_lanes_until_they_are_gone():
    seats = [Seat(slot, slot, age) for slot, age in enumerate((5, 6, 7, 8))]
    assert [(seat.age, seat.lane) for seat in deal(seats, 3)] == [(5, 2), (6, 0), (7, 1), (8, 2)]
