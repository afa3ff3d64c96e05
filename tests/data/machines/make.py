"""Writes machines as Linux shows them, cut down to the files that a core plan is made from.

`python tests/data/machines/make.py FOLDER`, then `python -m service plan --machine FOLDER/two_nodes_smt`.
"""

import sys
from pathlib import Path

V2_MOUNT = "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 30 0:29 /docker/f00d /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
    "34 30 0:31 /docker/f00d /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
    "35 30 0:32 /docker/f00d /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)


def cpu_files(cpu, siblings=None, l3=None, capacity=None, frequency_khz=None):
    """Files of one CPU; a part that is None is missing, as it is in many virtual machines."""
    folder = f"sys/devices/system/cpu/cpu{cpu}"
    files = {}
    if siblings:
        files[f"{folder}/topology/core_cpus_list"] = siblings
    if l3:
        files[f"{folder}/cache/index3/level"] = "3"
        files[f"{folder}/cache/index3/shared_cpu_list"] = l3
    if capacity:
        files[f"{folder}/cpu_capacity"] = str(capacity)
    if frequency_khz:
        files[f"{folder}/cpufreq/cpuinfo_max_freq"] = str(frequency_khz)
    return files


def machine(online, nodes, cpus, extra=None):
    """All files of one machine."""
    files = {"sys/devices/system/cpu/online": online}
    for number, cpu_list in enumerate(nodes):
        files[f"sys/devices/system/node/node{number}/cpulist"] = cpu_list
    for cpu in cpus:
        files |= cpu
    return files | (extra or {})


def two_nodes_smt():
    """64 CPUs: two NUMA nodes of 16 cores with two CPUs each, one L3 a node."""
    lists = ("0-15,32-47", "16-31,48-63")
    cpus = [cpu_files(cpu, f"{cpu % 32},{cpu % 32 + 32}", lists[cpu % 32 // 16]) for cpu in range(64)]
    return machine("0-63", lists, cpus)


def four_caches():
    """16 cores without SMT, four L3 caches of four cores."""
    cpus = [cpu_files(cpu, str(cpu), f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}") for cpu in range(16)]
    return machine("0-15", ["0-15"], cpus)


def cpuset_holes():
    """8 cores with SMT, two L3 caches; the group's CPU set has holes, also between siblings."""
    lists = ("0-3,8-11", "4-7,12-15")
    cpus = [cpu_files(cpu, f"{cpu % 8},{cpu % 8 + 8}", lists[cpu % 8 // 4]) for cpu in range(16)]
    return machine(
        "0-15",
        ["0-15"],
        cpus,
        {
            "proc/self/cgroup": "0::/box",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/box/cpuset.cpus.effective": "1-3,5,9,12-14",
            "sys/fs/cgroup/box/cpu.max": "max 100000",
            "sys/fs/cgroup/box/memory.max": "max",
        },
    )


def quota_2_5():
    """8 cores, two L3 caches; version 2, the quota stands in the group above the innermost."""
    cpus = [cpu_files(cpu, str(cpu), f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}") for cpu in range(8)]
    return machine(
        "0-7",
        ["0-7"],
        cpus,
        {
            "proc/self/cgroup": "0::/pod/box",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/pod/box/cpu.max": "400000 100000",
            "sys/fs/cgroup/pod/cpu.max": "250000 100000",
            "sys/fs/cgroup/pod/box/memory.max": "max",
            "sys/fs/cgroup/pod/memory.max": "2147483648",
        },
    )


def quota_1_5():
    """4 cores; version 1 as Docker mounts it: the container sees its own group at the mount point."""
    cpus = [cpu_files(cpu, str(cpu), "0-3") for cpu in range(4)]
    return machine(
        "0-3",
        ["0-3"],
        cpus,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/f00d\n4:cpuset:/docker/f00d\n3:memory:/docker/f00d\n0::/\n",
            "proc/self/mountinfo": V1_MOUNTS,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-3",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )


def big_little():
    """Arm: four efficient cores (0-3) and four fast ones (4-7), no L3 shown."""
    cpus = [cpu_files(cpu, str(cpu), capacity=446 if cpu < 4 else 1024) for cpu in range(8)]
    return machine("0-7", ["0-7"], cpus)


def hybrid():
    """x86: two fast cores with SMT (one clocks a little higher) and four efficient ones, one L3."""
    fast = [
        cpu_files(cpu, f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", "0-7", None, 5_000_000 + cpu // 2 * 200_000)
        for cpu in range(4)
    ]
    slow = [cpu_files(cpu, str(cpu), "0-7", None, 3_800_000) for cpu in range(4, 8)]
    return machine("0-7", ["0-7"], fast + slow)


def one_core():
    """A small virtual machine that shows nothing but its one CPU."""
    return machine("0", [], [])


MACHINES = (two_nodes_smt, four_caches, cpuset_holes, quota_2_5, quota_1_5, big_little, hybrid, one_core)


def write(folder):
    """Writes all machines below a folder."""
    for make in MACHINES:
        for name, text in make().items():
            path = Path(folder) / make.__name__ / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
