import pytest

from service.host.cgroup import Limits, format_cpu_list, parse_cpu_list, read_limits

V2 = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1_CPU = "32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"


def tree(tmp_path, cgroup, mountinfo, files):
    for name, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_without_control_groups_there_is_no_limit(tmp_path):
    assert read_limits(tmp_path) == Limits(quota_cpus=None, cpuset=None, memory_bytes=None)


def test_the_tightest_group_of_the_path_wins(tmp_path):
    files = {
        "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
        "sys/fs/cgroup/a/cpu.max": "25000 10000",
        "sys/fs/cgroup/a/b/memory.max": "max",
        "sys/fs/cgroup/a/memory.max": "4096",
        "sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-1,4\n",
        "sys/fs/cgroup/a/cpuset.cpus.effective": "0-7",
    }
    assert read_limits(tree(tmp_path, "0::/a/b\n", V2, files)) == Limits(2.5, frozenset({0, 1, 4}), 4096)


@pytest.mark.parametrize("text", ["max 100000", "", "nonsense", "0 100000", "100000"])
def test_what_is_no_quota_is_no_limit(tmp_path, text):
    root = tree(tmp_path, "0::/\n", V2, {"sys/fs/cgroup/cpu.max": text})
    assert read_limits(root).quota_cpus is None


def test_version_1_is_read_beside_an_empty_version_2(tmp_path):
    files = {
        "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "150000",
        "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    }
    hybrid = V1_CPU + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    assert read_limits(tree(tmp_path, "1:cpu:/box\n0::/\n", hybrid, files)).quota_cpus == 1.5


@pytest.mark.parametrize(
    ("path", "top"), [("/docker/f00d", "/docker/f00d"), ("/elsewhere", "/docker/f00d"), ("/../../box", "/")]
)
def test_a_container_sees_its_group_at_the_mount_point(tmp_path, path, top):
    mount = f"31 23 0:27 {top} /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    root = tree(tmp_path, f"0::{path}\n", mount, {"sys/fs/cgroup/cpu.max": "50000 100000"})
    assert read_limits(root).quota_cpus == 0.5


def test_a_group_that_only_begins_like_the_mounted_one_is_not_below_it(tmp_path):
    mount = "31 23 0:27 /box /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    files = {"sys/fs/cgroup/cpu.max": "100000 100000", "sys/fs/cgroup/er/cpu.max": "900000 100000"}
    assert read_limits(tree(tmp_path, "0::/boxer\n", mount, files)).quota_cpus == 1.0


def test_a_mount_point_with_a_space_is_found(tmp_path):
    mount = r"31 23 0:27 / /my\040groups rw - cgroup2 cgroup2 rw"
    assert read_limits(tree(tmp_path, "0::/\n", mount, {"my groups/cpu.max": "200000 100000"})).quota_cpus == 2.0


def test_version_1s_largest_number_is_no_memory_limit(machines):
    limits = read_limits(machines / "quota_1_5")
    assert limits == Limits(1.5, frozenset(range(4)), None)


def test_memory_is_read(machines):
    assert read_limits(machines / "quota_2_5").memory_bytes == 2 * 1024**3


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8,10-11", {0, 1, 2, 3, 8, 10, 11}), ("5", {5}), ("", set()), ("1,2\n", {1, 2})]
)
def test_cpu_lists_are_read_and_written(text, cpus):
    assert parse_cpu_list(text) == cpus
    assert parse_cpu_list(format_cpu_list(frozenset(cpus))) == cpus


def test_a_cpu_list_is_written_in_its_shortest_form():
    assert format_cpu_list((0, 1, 2, 3, 8, 10, 11)) == "0-3,8,10-11"
