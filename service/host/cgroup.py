"""Limits that control groups set for this process: CPU quota, CPU set, memory; versions 1 and 2.

Every file is read below a root, so that a recorded tree is read like the machine itself. A file that is
missing or unreadable is no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes the largest whole number of pages for "no limit"."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the control groups allow.

    Attributes:
        quota_cpus: CPU seconds a second, None without a quota.
        cpuset: numbers of the CPUs that may be used, None without a set.
        memory_bytes: None without a limit.
    """

    quota_cpus: float | None
    cpuset: frozenset[int] | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mounted hierarchy; `controllers` is empty for version 2."""

    top: str
    folder: str
    controllers: frozenset[str]


def read_limits(root: Path = Path("/")) -> Limits:
    """The tightest limits on the path from this process's groups up to what is mounted.

    Args:
        root: `/`, or a recorded tree with `proc/self/cgroup`, `proc/self/mountinfo` and the mounted files.
    """
    cpu, cpuset, memory = (tuple(_groups(root, controller)) for controller in ("cpu", "cpuset", "memory"))
    return Limits(
        quota_cpus=min((quota for group in cpu if (quota := _quota(group)) is not None), default=None),
        cpuset=next((cpus for group in cpuset if (cpus := _cpus(group))), None),
        memory_bytes=min((size for group in memory if (size := _memory(group)) is not None), default=None),
    )


def parse_cpu_list(text: str) -> frozenset[int]:
    """Reads the kernel's list format, for example `0-3,8,10-11`.

    Raises:
        ValueError: the text is not such a list.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: tuple[int, ...] | frozenset[int]) -> str:
    """Writes the kernel's list format."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def read_text(path: Path) -> str:
    """A small file's text without its ends; empty if it can't be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups that bind this process, the innermost first, both versions."""
    mounts = tuple(_mounts(read_text(root / "proc/self/mountinfo")))
    for line in read_text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for mount in mounts:
            is_it = number == "0" and not names and not mount.controllers
            if is_it or (controller in names.split(",") and controller in mount.controllers):
                yield from _upward(root / mount.folder.lstrip("/"), _below(path, mount.top))


def _mounts(text: str) -> Iterator[_Mount]:
    """The control group hierarchies of a `mountinfo` (proc(5))."""
    for line in text.splitlines():
        place, _, kind = line.partition(" - ")
        fields, (fstype, _, options) = place.split(), [*kind.split(), "", "", ""][:3]
        if fstype in ("cgroup", "cgroup2"):
            controllers = frozenset(options.split(",")) if fstype == "cgroup" else frozenset[str]()
            yield _Mount(_unescape(fields[3]), _unescape(fields[4]), controllers)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _below(path: str, top: str) -> str:
    """The group's path below the mount, which may show only a part of the hierarchy.

    Empty if the group lies outside that part: then what is mounted is all that can be seen.
    """
    if path != top and not path.startswith(top.rstrip("/") + "/"):
        return ""
    below = path[len(top.rstrip("/")) :].strip("/")
    return "" if ".." in below.split("/") else below


def _upward(mount: Path, below: str) -> Iterator[Path]:
    folder = mount / below
    yield folder
    while folder != mount:
        folder = folder.parent
        yield folder


def _quota(group: Path) -> float | None:
    """CPUs from `cpu.max` (version 2) or `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1)."""
    fields = read_text(group / "cpu.max").split()
    if not fields:
        fields = [read_text(group / "cpu.cfs_quota_us"), read_text(group / "cpu.cfs_period_us")]
    try:
        quota_us, period_us = (int(field) for field in fields)
    except ValueError:
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _cpus(group: Path) -> frozenset[int]:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        try:
            cpus = parse_cpu_list(read_text(group / name))
        except ValueError:
            continue
        if cpus:
            return cpus
    return frozenset()


def _memory(group: Path) -> int | None:
    text = read_text(group / "memory.max") or read_text(group / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT_BYTES else None
