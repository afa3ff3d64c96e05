"""The core plan: the usable cores cut into lanes, one lane for each worker.

The rules: threads of all lanes together never exceed the usable physical cores or the quota rounded down; a lane
stays in one L3 cache and one NUMA node while there are enough lanes; fast and slow cores never share a lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.host import reasons
from service.host.topology import Core, Machine

Cores = tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """What one worker gets.

    Attributes:
        cpus: ascending; SMT siblings included.
        threads: that run models; the number of physical cores.
    """

    cpus: tuple[int, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Lanes in the order of their numbers, and why they are so.

    Attributes:
        lanes: disjoint while workers fit the cores.
        reasons: sentences.
        warnings: sentences on what an operator should change.
    """

    lanes: tuple[Lane, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def make_plan(machine: Machine, workers: int | None) -> Plan:
    """Cuts the lanes.

    Args:
        machine: with one usable core at least.
        workers: number of lanes; None for one for each core that may be used.
    """
    cores = _packed(machine.cores, budget_cores(machine))
    count = workers or len(cores)
    if count > len(cores):
        shares: list[Cores] = [(cores[number % len(cores)],) for number in range(count)]
    else:
        shares = _divided(cores, count)
    return Plan(
        tuple(Lane(tuple(sorted(cpu for core in share for cpu in core.cpus)), len(share)) for share in shares),
        reasons.reasons(machine, cores, shares),
        reasons.warnings(machine, cores, shares),
    )


def budget_cores(machine: Machine) -> int:
    """Physical cores that may be used at once: all usable ones, at most the quota rounded down, at least 1."""
    if machine.quota_cpus is None:
        return len(machine.cores)
    return max(1, min(len(machine.cores), math.floor(machine.quota_cpus)))


def _by_kind(core: Core) -> int:
    return core.kind


def _by_node(core: Core) -> int:
    return core.node


def _by_cache(core: Core) -> tuple[int, int]:
    return core.node, core.cache


def _grouped(cores: Sequence[Core], key: Callable[[Core], object]) -> list[Cores]:
    groups: dict[object, list[Core]] = {}
    for core in cores:
        groups.setdefault(key(core), []).append(core)
    return [tuple(group) for group in groups.values()]


def _packed(cores: Cores, wanted: int) -> Cores:
    """The cores to use when a quota allows fewer than there are: fast ones, in as few caches as possible.

    The smallest cache that holds them all is taken, else the largest, and the rest close to it.
    """
    taken: list[Core] = []
    while len(taken) < wanted:
        missing = wanted - len(taken)
        left = [core for core in cores if core not in taken]
        groups = _grouped([core for core in left if core.kind == left[0].kind], _by_cache)
        nodes = {core.node for core in taken}
        fitting = [group for group in groups if len(group) >= missing]
        if fitting:
            group = min(fitting, key=lambda group: (group[0].node not in nodes, len(group)))
        else:
            group = max(groups, key=lambda group: (group[0].node in nodes, len(group)))
        taken.extend(group[:missing])
    return tuple(core for core in cores if core in taken)


def _divided(cores: Cores, count: int) -> list[Cores]:
    """Lanes out of each kind of core; a lane never mixes kinds."""
    kinds = _grouped(cores, _by_kind)
    shares = _proportional(kinds, count, [1] + [0] * (len(kinds) - 1))
    return [lane for kind, share in zip(kinds, shares, strict=True) for lane in _within(kind, share, _by_node)]


def _within(cores: Cores, count: int, key: Callable[[Core], object]) -> list[Cores]:
    """Lanes that stay in one node (then in one cache), or take whole ones if there are fewer lanes than those."""
    groups = _grouped(cores, key)
    if not count:
        return []
    if count < len(groups):
        return _merged(groups, count)
    shares = _proportional(groups, count, [0] * len(groups))
    pairs = zip(groups, shares, strict=True)
    if key is _by_node:
        return [lane for group, share in pairs for lane in _within(group, share, _by_cache)]
    return [lane for group, share in pairs for lane in _evenly(group, share)]


def _proportional(groups: list[Cores], count: int, shares: list[int]) -> list[int]:
    """Gives out lanes one by one, each to the group that has the most capacity for one lane more (D'Hondt)."""
    shares = list(shares)

    def capacity_a_lane(number: int) -> float:
        if shares[number] == len(groups[number]):
            return 0.0
        return sum(core.capacity for core in groups[number]) / (shares[number] + 1)

    while sum(shares) < count:
        shares[max(range(len(groups)), key=capacity_a_lane)] += 1
    return shares


def _merged(groups: list[Cores], count: int) -> list[Cores]:
    """Neighbouring whole groups for each lane, as near to an equal part of the cores as they come."""
    lanes: list[Cores] = []
    for left in range(count, 0, -1):
        wanted = sum(len(group) for group in groups) / left
        lane, groups = groups[0], groups[1:]
        while len(groups) >= left and (left == 1 or 2 * len(lane) + len(groups[0]) <= 2 * wanted):
            lane, groups = lane + groups[0], groups[1:]
        lanes.append(lane)
    return lanes


def _evenly(cores: Cores, count: int) -> list[Cores]:
    """Neighbours together; the first lanes get one core more where it doesn't come out even."""
    lanes: list[Cores] = []
    for left in range(count, 0, -1):
        width = math.ceil(len(cores) / left)
        lanes.append(cores[:width])
        cores = cores[width:]
    return lanes
