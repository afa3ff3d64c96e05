"""CPU masks of whole processes: every thread, also those that start meanwhile."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

_PASSES = 100


def pin(pid: int, cpus: Collection[int]) -> None:
    """Sets the mask of every thread of a process.

    A thread inherits the mask of the one that starts it, so a pass that finds every mask right is the last.

    Args:
        pid: of a process that this one may change.
        cpus: CPUs that its threads may run on.

    Raises:
        ProcessLookupError: there is no such process.
        OSError: the kernel refuses the mask, or threads with another mask keep coming.
    """
    wanted = frozenset(cpus)
    for _ in range(_PASSES):
        wrong = [thread for thread, mask in read_masks(pid).items() if mask != wanted]
        if not wrong:
            return
        for thread in wrong:
            try:
                os.sched_setaffinity(thread, wanted)
            except ProcessLookupError:
                continue
    raise OSError(f"threads of process {pid} did not keep the CPUs {sorted(wanted)} that were set {_PASSES} times")


def read_masks(pid: int) -> dict[int, frozenset[int]]:
    """CPUs that each thread of a process may run on, by thread number.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError as fault:
        raise ProcessLookupError(f"no process {pid}") from fault
    masks = {}
    for thread in threads:
        try:
            masks[thread] = frozenset(os.sched_getaffinity(thread))
        except ProcessLookupError:
            continue
    return masks
