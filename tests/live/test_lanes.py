"""Real gunicorn, real signals: after each, every thread of every worker is on the cores that the printed plan says."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.host import affinity
from service.host.plan import make_plan
from service.host.topology import read_machine
from tests.live.lanes_service import CONF, CORES, CPUS, children, service, until

CGROUP_V1 = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def running(tmp_path):
    with service(tmp_path) as one:
        yield one


def test_at_start_every_thread_of_every_worker_is_on_its_lane(running):
    assert running.follows_its_plan(CORES)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: running.ask(), range(32)))
    assert running.follows_its_plan(CORES)
    assert sorted(cpu for mask in running.masks() for cpu in mask) == CPUS
    assert running.plan() == [(list(lane.cpus), lane.threads) for lane in make_plan(read_machine(), None).lanes]


def test_a_worker_knows_its_place(running):
    running.follows_its_plan(CORES)
    facts = running.ask()
    assert facts["metrics_id"] == f"{running.process.pid}-{facts['slot']}"
    assert facts["cpus"] == sorted(affinity.read_masks(facts["pid"])[facts["pid"]])
    assert facts["threads"] == 1


def test_sessions_are_opened_before_a_worker_says_it_is_ready(running):
    assert running.ask()["opened"] == ["BOOTING"]


def test_more_and_fewer_workers_share_the_cores_anew(running):
    assert running.follows_its_plan(CORES)
    for name, step in [("TTIN", 1)] * 3 + [("TTOU", -1)] * 3:
        workers = len(running.plan()) + step
        running.signal(name)
        assert until(lambda workers=workers: len(running.plan()) == workers)
        assert running.follows_its_plan(workers)


def test_a_living_worker_learns_of_its_wider_lane(tmp_path):
    with service(tmp_path, "-w", str(CORES + 1)) as one:
        one.follows_its_plan(CORES + 1)
        for _ in range(CORES):
            one.signal("TTOU")
            time.sleep(0.1)
        assert one.follows_its_plan(1)
        assert (one.ask()["cpus"], one.ask()["threads"]) == (CPUS, CORES)


def test_a_killed_workers_successor_takes_its_lane_and_slot(running):
    assert running.follows_its_plan(CORES)
    slot, pid, _, lane = running.ready()[-1]
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not Path(f"/proc/{pid}").exists())
    assert running.follows_its_plan(CORES)
    assert [(slot, lane)] == [(s, n) for s, p, _, n in running.ready() if s == slot and p != pid]


def test_a_reload_gives_every_lane_to_a_new_worker_and_keeps_the_metrics_folder(running):
    assert running.follows_its_plan(CORES)
    before = running.ask()
    running.signal("HUP")
    old = {pid for _, pid, *_ in before["board"]}
    assert until(lambda: not old & set(children(running.process.pid)))
    assert running.follows_its_plan(CORES)
    assert running.ask()["metrics"] == before["metrics"]
    assert Path(before["metrics"]).is_dir()


def test_a_mask_from_outside_is_kept(tmp_path):
    with service(tmp_path, before=("taskset", "-c", str(CPUS[0]))) as one:
        assert one.follows_its_plan(1)
        assert one.masks() == [[CPUS[0]]]


@pytest.mark.parametrize("worker_class", ["sync", "gthread"])
def test_more_workers_than_cores_share_them_with_a_warning(tmp_path, worker_class):
    with service(tmp_path, "-k", worker_class, "-w", str(CORES + 1)) as one:
        assert one.follows_its_plan(CORES + 1)
        text = one.log.read_text()
        assert f"Using worker: {worker_class}\n" in text
        assert f"[WARNING] Plan: {CORES + 1} workers share {CORES} core" in text


def test_a_number_in_the_environment_is_respected(tmp_path):
    with service(tmp_path, WEB_CONCURRENCY="1") as one:
        assert one.follows_its_plan(1)


def test_a_number_that_is_edited_in_the_file_comes_with_a_reload(tmp_path):
    edited = tmp_path / "gunicorn.conf.py"
    edited.write_text(re.sub(r"(?m)^workers = .*", "workers = 3", CONF.read_text()))
    with service(tmp_path, conf=edited) as one:
        assert one.follows_its_plan(3)
        # Another size: Python takes a compiled file for the newer one if size and second are the same.
        edited.write_text(edited.read_text().replace("workers = 3", "workers = 1 + 1"))
        one.signal("HUP")
        assert until(lambda: len(one.plan()) == 2)
        assert one.follows_its_plan(2)


@pytest.fixture
def quota():
    """A control group that allows one and a half CPUs."""
    if not (CGROUP_V1 / "cgroup.procs").exists() or not os.access(CGROUP_V1, os.W_OK):
        pytest.skip(f"no version 1 CPU controller that may be written at {CGROUP_V1}")
    group = CGROUP_V1 / f"pinion-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("150000")
    except OSError as fault:
        pytest.skip(f"a control group can't be made in {CGROUP_V1}: {fault}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_a_real_quota_of_one_and_a_half_cpus_gives_one_lane(tmp_path, quota):
    join = ("sh", "-c", f'echo $$ > {quota}/cgroup.procs && exec "$@"', "sh")
    with service(tmp_path, before=join) as one:
        assert one.follows_its_plan(1)
        assert len(one.masks()[0]) == len(read_machine().cores[0].cpus)
        assert "The CPU quota of 1.5 CPUs, rounded down, allows 1 core" in one.log.read_text()
