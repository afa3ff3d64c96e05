import os
import random

from service.host.meters import BURST_NS, OWN_ROWS, SHARED_ROWS, Meters

SECOND_NS = 1_000_000_000


def offered(meters, slots, rate, per_s, seconds, row=3):
    """Answered of requests that come evenly, each to any of the slots."""
    random_, answered = random.Random(7), 0
    for number in range(int(per_s * seconds)):
        now_ns = SECOND_NS + int(number * SECOND_NS / per_s)
        answered += meters.take(row, random_.choice(slots), int(SECOND_NS / rate), now_ns) == 0
    return answered


def opened(slots):
    meters = Meters()
    for slot in slots:
        meters.open_column(slot)
    return meters


def test_a_rate_holds_over_all_slots():
    slots = [0, 1, 2, 3]
    assert 1000 <= offered(opened(slots), slots, rate=100, per_s=1000, seconds=10) <= 1006
    # Hundreds of workers share words, which costs a little and lets in nothing more.
    slots = list(range(0, 600, 7))
    assert 1000 <= offered(opened(slots), slots, rate=100, per_s=1000, seconds=10) <= 1006


def test_what_is_below_the_rate_is_never_refused():
    assert offered(opened([0, 1]), [0, 1], rate=100, per_s=99, seconds=20) == 99 * 20


def test_a_twentieth_of_a_second_may_come_at_once_and_the_wait_is_right():
    meters, interval_ns, now_ns = Meters(), SECOND_NS // 100, 5 * SECOND_NS
    assert [meters.take(0, 0, interval_ns, now_ns) for _ in range(5)] == [0] * 5
    wait_ns = meters.take(0, 0, interval_ns, now_ns)
    assert wait_ns == interval_ns
    assert meters.take(0, 0, interval_ns, now_ns + wait_ns - 1) == 1
    assert meters.take(0, 0, interval_ns, now_ns + wait_ns) == 0
    assert [meters.take(0, 0, interval_ns, now_ns + SECOND_NS) for _ in range(6)].count(0) == 5


def test_a_slow_rate_lets_in_one():
    meters, interval_ns = Meters(), 10 * SECOND_NS
    assert interval_ns > BURST_NS
    assert meters.take(0, 0, interval_ns, SECOND_NS) == 0
    assert meters.take(0, 0, interval_ns, 2 * SECOND_NS) == 9 * SECOND_NS


def test_another_process_counts_too():
    meters = opened([0, 1])
    child = os.fork()
    if not child:
        meters.take(0, 1, SECOND_NS, 5 * SECOND_NS)
        os._exit(0)
    os.waitpid(child, 0)
    assert meters.take(0, 0, SECOND_NS, 5 * SECOND_NS) == SECOND_NS
    assert meters.take(1, 0, SECOND_NS, 5 * SECOND_NS) == 0


def test_rows_found_by_a_tag_are_kept_while_in_use_and_shared_at_last():
    meters, now_ns = Meters(), SECOND_NS
    tags = [1 + number * SHARED_ROWS for number in range(5)]
    rows = []
    for tag in tags:
        rows.append(meters.row_of(tag, now_ns))
        assert meters.row_of(tag, now_ns) == rows[-1] >= OWN_ROWS
        meters.take(rows[-1], 0, SECOND_NS, now_ns)
    assert len(set(rows[:4])) == 4
    assert rows[4] == rows[0]
    assert meters.row_of(tags[4], 10 * SECOND_NS) in rows
    assert meters.row_of(SHARED_ROWS - 1, now_ns) < OWN_ROWS + SHARED_ROWS
