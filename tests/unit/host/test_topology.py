import os

import pytest

from service.host.topology import Core, read_machine


def test_siblings_make_one_core_with_its_cache_and_node(machines):
    cores = read_machine(machines / "two_nodes_smt").cores
    assert len(cores) == 32
    assert cores[0] == Core(cpus=(0, 32), cache=0, node=0)
    assert cores[31] == Core(cpus=(31, 63), cache=16, node=1)


def test_each_core_knows_its_l3_cache(machines):
    cores = read_machine(machines / "four_caches").cores
    assert [core.cache for core in cores] == [0] * 4 + [4] * 4 + [8] * 4 + [12] * 4


def test_a_cpu_set_takes_siblings_away(machines):
    cores = read_machine(machines / "cpuset_holes").cores
    assert [core.cpus for core in cores] == [(1, 9), (2,), (3,), (5, 13), (12,), (14,)]


def test_the_mask_of_the_process_counts_too(machines):
    cores = read_machine(machines / "two_nodes_smt", affinity={0, 32, 5, 63}).cores
    assert [core.cpus for core in cores] == [(0, 32), (5,), (63,)]


def test_a_recorded_mask_counts(machines, tmp_path):
    (tmp_path / "sys").symlink_to(machines / "four_caches" / "sys")
    (tmp_path / "affinity").write_text("2,9-10\n")
    assert [core.cpus for core in read_machine(tmp_path).cores] == [(2,), (9,), (10,)]


def test_fast_cores_come_first(machines):
    cores = read_machine(machines / "big_little").cores
    assert [(core.cpus[0], core.kind) for core in cores] == [(cpu, 0) for cpu in (4, 5, 6, 7)] + [
        (cpu, 1) for cpu in (0, 1, 2, 3)
    ]


def test_a_favoured_core_is_no_kind_of_its_own(machines):
    assert [core.kind for core in read_machine(machines / "hybrid").cores] == [0, 0, 1, 1, 1, 1]


def test_a_machine_that_shows_nothing_has_plain_cores(machines):
    assert read_machine(machines / "one_core").cores == (Core((0,), cache=0, node=0),)


def test_limits_come_with_the_machine(machines):
    machine = read_machine(machines / "quota_2_5")
    assert (machine.quota_cpus, machine.memory_bytes) == (2.5, 2 * 1024**3)


def test_a_folder_without_a_machine_is_an_error_that_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="names no CPU: expected a recorded tree"):
        read_machine(tmp_path)


def test_this_machines_usable_cpus_are_those_of_the_mask():
    cpus = [cpu for core in read_machine().cores for cpu in core.cpus]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
