import pytest

from service.host.plan import budget_cores, make_plan
from service.host.topology import Core, Machine, read_machine

NAMES = ("two_nodes_smt", "four_caches", "cpuset_holes", "quota_2_5", "quota_1_5", "big_little", "hybrid", "one_core")


def lanes(machines, name, workers=None):
    return [(lane.cpus, lane.threads) for lane in make_plan(read_machine(machines / name), workers).lanes]


def r(*pairs):
    """CPUs of ranges, last ones included."""
    return tuple(cpu for first, last in pairs for cpu in range(first, last + 1))


def test_64_cpus_with_smt_and_two_nodes_are_32_lanes_of_one_core(machines):
    assert lanes(machines, "two_nodes_smt") == [((core, core + 32), 1) for core in range(32)]


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (1, [(r((0, 63)), 32)]),
        (2, [(r((0, 15), (32, 47)), 16), (r((16, 31), (48, 63)), 16)]),
        (3, [(r((0, 7), (32, 39)), 8), (r((8, 15), (40, 47)), 8), (r((16, 31), (48, 63)), 16)]),
        (4, [(r((n, n + 7), (n + 32, n + 39)), 8) for n in (0, 8, 16, 24)]),
    ],
)
def test_lanes_stay_in_a_numa_node(machines, workers, expected):
    assert lanes(machines, "two_nodes_smt", workers) == expected


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (None, [((cpu,), 1) for cpu in range(16)]),
        (2, [(r((0, 7)), 8), (r((8, 15)), 8)]),
        (3, [(r((0, 3)), 4), (r((4, 11)), 8), (r((12, 15)), 4)]),
        (4, [(r((n, n + 3)), 4) for n in (0, 4, 8, 12)]),
        (6, [((0, 1), 2), ((2, 3), 2), ((4, 5), 2), ((6, 7), 2), (r((8, 11)), 4), (r((12, 15)), 4)]),
    ],
)
def test_lanes_stay_in_an_l3_cache_or_take_whole_ones(machines, workers, expected):
    assert lanes(machines, "four_caches", workers) == expected


def test_a_cpuset_with_holes_leaves_out_what_is_missing(machines):
    assert lanes(machines, "cpuset_holes") == [(cpus, 1) for cpus in ((1, 9), (2,), (3,), (5, 13), (12,), (14,))]
    assert lanes(machines, "cpuset_holes", 2) == [((1, 2, 3, 9), 3), ((5, 12, 13, 14), 3)]


def test_a_quota_of_two_and_a_half_gives_two_cores(machines):
    assert lanes(machines, "quota_2_5") == [((0,), 1), ((1,), 1)]
    assert lanes(machines, "quota_2_5", 1) == [((0, 1), 2)]


def test_a_quota_of_one_and_a_half_gives_one_core(machines):
    assert lanes(machines, "quota_1_5") == [((0,), 1)]


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (None, [((cpu,), 1) for cpu in (4, 5, 6, 7, 0, 1, 2, 3)]),
        (1, [((4, 5, 6, 7), 4)]),
        (2, [((4, 5), 2), ((6, 7), 2)]),
        (3, [((4, 5), 2), ((6, 7), 2), ((0, 1, 2, 3), 4)]),
        (6, [((4,), 1), ((5,), 1), ((6,), 1), ((7,), 1), ((0, 1), 2), ((2, 3), 2)]),
    ],
)
def test_big_cores_come_first_and_share_no_lane_with_little_ones(machines, workers, expected):
    assert lanes(machines, "big_little", workers) == expected


def test_a_quota_takes_the_fast_cores():
    cores = tuple(Core((cpu,), 0, 0, kind=cpu // 2, capacity=2 - cpu // 2) for cpu in range(4))
    assert [lane.cpus for lane in make_plan(Machine(cores, quota_cpus=3.0), None).lanes] == [(0,), (1,), (2,)]


def test_a_quota_takes_the_smallest_cache_that_is_large_enough():
    cores = tuple(Core((cpu,), 0 if cpu < 4 else 4, 0) for cpu in range(6))
    assert [lane.cpus for lane in make_plan(Machine(cores, quota_cpus=2.9), None).lanes] == [(4,), (5,)]


def test_a_quota_that_no_cache_holds_stays_in_one_node():
    cores = tuple(Core((cpu,), cpu // 2 * 2, cpu // 4) for cpu in range(8))
    assert [lane.cpus for lane in make_plan(Machine(cores, quota_cpus=3.0), None).lanes] == [(0,), (1,), (2,)]


def test_more_workers_than_cores_share_them_evenly_with_a_warning(machines):
    plan = make_plan(read_machine(machines / "quota_2_5"), 5)
    assert [(lane.cpus, lane.threads) for lane in plan.lanes] == [((n % 2,), 1) for n in range(5)]
    assert plan.warnings == (
        (
            "5 workers share 2 cores: workers wait for each other, and latency is less steady."
            " Set the number of workers to at most 2."
        ),
    )


def test_one_core_is_one_lane(machines):
    plan = make_plan(read_machine(machines / "one_core"), None)
    assert [(lane.cpus, lane.threads) for lane in plan.lanes] == [((0,), 1)]
    assert plan.warnings == ()


def test_a_quota_below_one_is_one_core_with_a_warning():
    plan = make_plan(Machine((Core((0,), 0, 0), Core((1,), 0, 0)), quota_cpus=0.5), None)
    assert [(lane.cpus, lane.threads) for lane in plan.lanes] == [((0,), 1)]
    assert "The CPU quota is 0.5 CPUs" in plan.warnings[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [None, 1, 2, 3, 4, 5, 7, 11, 16, 31, 40])
def test_the_promises_hold_for_every_machine_and_number(machines, name, workers):
    machine = read_machine(machines / name)
    plan, budget = make_plan(machine, workers), budget_cores(machine)
    assert len(plan.lanes) == (workers or budget)
    assert all(lane.cpus and lane.threads >= 1 for lane in plan.lanes)
    if len(plan.lanes) > budget:
        assert [lane.threads for lane in plan.lanes] == [1] * len(plan.lanes)
        times_used = [sum(cpu in lane.cpus for lane in plan.lanes) for cpu in {c for x in plan.lanes for c in x.cpus}]
        assert max(times_used) - min(times_used) <= 1
    else:
        used = [cpu for lane in plan.lanes for cpu in lane.cpus]
        assert len(used) == len(set(used))
        assert sum(lane.threads for lane in plan.lanes) <= budget


def test_few_cores_of_another_node_stay_free_rather_than_make_a_lane_cross(machines):
    cores = (*(Core((cpu,), 0, 0) for cpu in range(7)), Core((7,), 7, 1))
    plan = make_plan(Machine(cores), 2)
    assert [lane.cpus for lane in plan.lanes] == [(0, 1, 2, 3), (4, 5, 6)]
    assert plan.reasons[-1].startswith("CPUs 7 stay free: they are too few")


def test_the_reasons_are_sentences(machines):
    assert make_plan(read_machine(machines / "quota_2_5"), None).reasons == (
        "8 physical cores may be used (CPUs 0-7).",
        (
            "The CPU quota of 2.5 CPUs, rounded down, allows 2 cores:"
            " with more, the kernel would stop all threads for the rest of a period."
        ),
        "The cores are the fastest ones, next to each other, so that lanes share as few caches as possible.",
        "2 workers on 2 cores: one lane for each core.",
    )


def test_uneven_lanes_are_a_warning_with_a_better_number(machines):
    plan = make_plan(read_machine(machines / "four_caches"), 3)
    assert plan.warnings == (
        (
            "Lanes have from 4 to 8 cores: requests are not equally fast in all workers."
            " With 4 workers all lanes are alike."
        ),
    )


def test_a_quota_above_the_cores_is_said_to_be_no_limit():
    plan = make_plan(Machine((Core((0,), 0, 0),), quota_cpus=4.0), None)
    assert "The CPU quota of 4 CPUs is no limit here: it covers all usable cores." in plan.reasons
