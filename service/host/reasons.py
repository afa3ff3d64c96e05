"""Why a core plan is as it is, in sentences for the log and for `python -m service plan`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from service.host.cgroup import format_cpu_list
from service.host.topology import Core, Machine


def reasons(machine: Machine, cores: Sequence[Core], shares: Sequence[Sequence[Core]]) -> tuple[str, ...]:
    """Sentences on the number of lanes, their width and the cores that stay free.

    Args:
        machine: the usable part of the machine.
        cores: those of it that the quota allows.
        shares: the cores of each lane.
    """
    return (
        *_machine(machine),
        *_quota(machine, cores),
        *_lanes(cores, shares),
        *_borders(shares),
        *_free(cores, shares),
    )


def warnings(machine: Machine, cores: Sequence[Core], shares: Sequence[Sequence[Core]]) -> tuple[str, ...]:
    """Sentences on what costs speed and what to set instead; the arguments are those of `reasons`."""
    found = []
    if machine.quota_cpus is not None and machine.quota_cpus < 1:
        found.append(
            f"The CPU quota is {machine.quota_cpus:g} CPUs, less than the one thread that is needed:"
            " the kernel stops the service for a part of every period. Set the quota to 1 or more."
        )
    if len(shares) > len(cores):
        found.append(
            f"{_count(len(shares), 'worker')} share {_count(len(cores), 'core')}: workers wait for each other, and"
            f" latency is less steady. Set the number of workers to at most {len(cores)}."
        )
    widths = sorted(len(share) for share in shares)
    if widths[-1] > widths[0] + 1 and len({share[0].kind for share in shares}) == 1:
        found.append(
            f"Lanes have from {widths[0]} to {widths[-1]} cores: requests are not equally fast in all workers."
            f" With {_count(_even_count(cores), 'worker')} all lanes are alike."
        )
    return tuple(found)


def _machine(machine: Machine) -> Iterator[str]:
    cpus = _cpus(machine.cores)
    yield f"{_count(len(machine.cores), 'physical core')} may be used (CPUs {format_cpu_list(cpus)})."
    if len(cpus) > len(machine.cores):
        yield "SMT siblings belong to the lane of their core and add no thread: they share one set of arithmetic units."


def _quota(machine: Machine, cores: Sequence[Core]) -> Iterator[str]:
    if machine.quota_cpus is None:
        return
    if math.floor(machine.quota_cpus) >= len(machine.cores):
        yield f"The CPU quota of {machine.quota_cpus:g} CPUs is no limit here: it covers all usable cores."
        return
    yield (
        f"The CPU quota of {machine.quota_cpus:g} CPUs, rounded down, allows {_count(len(cores), 'core')}:"
        " with more, the kernel would stop all threads for the rest of a period."
    )
    yield "The cores are the fastest ones, next to each other, so that lanes share as few caches as possible."


def _lanes(cores: Sequence[Core], shares: Sequence[Sequence[Core]]) -> Iterator[str]:
    lanes, usable = _count(len(shares), "worker"), _count(len(cores), "core")
    if len(shares) == len(cores):
        yield f"{lanes} on {usable}: one lane for each core."
    elif len(shares) > len(cores):
        yield f"{lanes} on {usable}: each runs one thread, the cores are given out in turn."
    else:
        yield f"{lanes} on {usable}: the cores are cut into wider lanes, one thread a core."


def _borders(shares: Sequence[Sequence[Core]]) -> Iterator[str]:
    if max(len(share) for share in shares) == 1:
        return
    nodes = [len({core.node for core in share}) for share in shares]
    caches = [len({(core.node, core.cache) for core in share}) for share in shares]
    for name, counts in (("NUMA node", nodes), ("L3 cache", caches)):
        across = [str(number) for number, places in enumerate(counts) if places > 1]
        if across:
            yield f"More than one {name} in lane {', '.join(across)}: there are fewer lanes than {name}s."
        else:
            yield f"Each lane stays in one {name}."


def _free(cores: Sequence[Core], shares: Sequence[Sequence[Core]]) -> Iterator[str]:
    used = {core for share in shares for core in share}
    free = [core for core in cores if core not in used]
    slow = [core for core in free if core.kind > 0]
    even = [core for core in free if core.kind == 0]
    if slow:
        yield (
            f"CPUs {format_cpu_list(_cpus(slow))} stay free: they are slower, and the slowest core of a lane sets its"
            " pace. More workers would use them."
        )
    if even:
        yield (
            f"CPUs {format_cpu_list(_cpus(even))} stay free: they are too few for a lane of their own beside"
            " the others, and a lane does not cross a cache or node for them."
        )


def _even_count(cores: Sequence[Core]) -> int:
    """The number of caches, if they have equally many cores, else of cores."""
    sizes: dict[tuple[int, int], int] = {}
    for core in cores:
        sizes[core.node, core.cache] = sizes.get((core.node, core.cache), 0) + 1
    return len(sizes) if len(set(sizes.values())) == 1 else len(cores)


def _cpus(cores: Iterable[Core]) -> tuple[int, ...]:
    return tuple(cpu for core in cores for cpu in core.cpus)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
