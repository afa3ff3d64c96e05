"""What the machine is: usable cores with their siblings, caches, nodes and sizes, and the limits on them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from service.host.cgroup import parse_cpu_list, read_limits, read_text

_CPUS = Path("sys/devices/system/cpu")
_NODES = Path("sys/devices/system/node")
_SAME_KIND = 0.85
"""Cores count as one kind down to this part of the fastest one's capacity. Favoured cores of one kind differ by
up to a tenth in their top clock; the efficient cores of mixed processors reach three quarters or less."""


@dataclass(frozen=True, slots=True)
class Core:
    """One physical core, as far as this process may use it.

    Attributes:
        cpus: numbers of its usable SMT siblings, ascending.
        cache: lowest CPU number of those that share its L3 cache; without one, of its node.
        node: NUMA node.
        kind: 0 for the fastest cores, 1 for the next kind, and so on.
        capacity: relative speed; 1 where the machine doesn't tell.
    """

    cpus: tuple[int, ...]
    cache: int
    node: int
    kind: int = 0
    capacity: int = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """The usable part of a machine.

    Attributes:
        cores: the fastest kind first, then by node, cache and number.
        quota_cpus: CPU seconds a second that the control groups allow, None without a quota.
        memory_bytes: that they allow, None without a limit.
    """

    cores: tuple[Core, ...]
    quota_cpus: float | None = None
    memory_bytes: int | None = None


def read_machine(root: Path = Path("/"), affinity: Collection[int] | None = None) -> Machine:
    """Reads the machine, or a recorded tree of one.

    Args:
        root: `/`, or the folder of a recorded tree. Its file `affinity` (a CPU list), if there is one, stands for
            the mask of the process.
        affinity: CPUs that the process may run on; None asks the system.

    Raises:
        FileNotFoundError: the recorded tree tells of no CPU.
    """
    limits = read_limits(root)
    allowed = frozenset(affinity) if affinity is not None else _affinity(root)
    online = _online(root)
    for limit in (online, limits.cpuset):
        if limit and allowed & limit:
            allowed &= limit
    if not allowed:
        raise FileNotFoundError(f"{root / _CPUS} names no CPU: expected a recorded tree with its `online` file")
    return Machine(_cores(root, sorted(allowed)), limits.quota_cpus, limits.memory_bytes)


def _affinity(root: Path) -> frozenset[int]:
    if root == Path("/"):
        return frozenset(os.sched_getaffinity(0))
    return parse_cpu_list(read_text(root / "affinity")) or _online(root)


def _online(root: Path) -> frozenset[int]:
    listed = parse_cpu_list(read_text(root / _CPUS / "online"))
    return listed or frozenset(int(path.name[3:]) for path in (root / _CPUS).glob("cpu[0-9]*"))


def _cores(root: Path, usable: list[int]) -> tuple[Core, ...]:
    nodes = _nodes(root)
    siblings: dict[frozenset[int], list[int]] = {}
    for cpu in usable:
        siblings.setdefault(_siblings(root, cpu), []).append(cpu)
    capacities = [max(_capacity(root, cpu) for cpu in cpus) for cpus in siblings.values()]
    cores = []
    for cpus, capacity in zip(siblings.values(), capacities, strict=True):
        node, first_of_node = nodes.get(cpus[0], (0, 0))
        cache = _cache(root, cpus[0], first_of_node)
        cores.append(Core(tuple(cpus), cache, node, _kind(capacity, capacities), capacity))
    return tuple(sorted(cores, key=lambda core: (core.kind, core.node, core.cache, core.cpus)))


def _nodes(root: Path) -> dict[int, tuple[int, int]]:
    """Node and lowest CPU of the node, by CPU."""
    found = {}
    for path in (root / _NODES).glob("node[0-9]*"):
        cpus = parse_cpu_list(read_text(path / "cpulist"))
        found.update({cpu: (int(path.name[4:]), min(cpus)) for cpu in cpus})
    return found


def _siblings(root: Path, cpu: int) -> frozenset[int]:
    folder = root / _CPUS / f"cpu{cpu}" / "topology"
    text = read_text(folder / "core_cpus_list") or read_text(folder / "thread_siblings_list")
    return parse_cpu_list(text) or frozenset({cpu})


def _cache(root: Path, cpu: int, otherwise: int) -> int:
    for folder in (root / _CPUS / f"cpu{cpu}" / "cache").glob("index*"):
        if read_text(folder / "level") == "3":
            return min(parse_cpu_list(read_text(folder / "shared_cpu_list")), default=otherwise)
    return otherwise


def _capacity(root: Path, cpu: int) -> int:
    folder = root / _CPUS / f"cpu{cpu}"
    text = read_text(folder / "cpu_capacity") or read_text(folder / "cpufreq/cpuinfo_max_freq")
    return max(1, int(text)) if text.isdigit() else 1


def _kind(capacity: int, capacities: list[int]) -> int:
    """How many kinds are faster."""
    kind, fastest = 0, max(capacities)
    for other in sorted(capacities, reverse=True):
        if other < fastest * _SAME_KIND:
            kind, fastest = kind + 1, other
        if other == capacity:
            break
    return kind
