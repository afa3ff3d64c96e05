"""Which versions of a model are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Versions:
    """A rule that picks versions.

    Attributes:
        latest: so many of the newest; None for no such limit.
        listed: exactly these; None for no list.
    """

    latest: int | None = None
    listed: tuple[str, ...] | None = None

    def served(self, there: Sequence[str]) -> list[str]:
        """Those of the versions that are there, oldest first, which the rule picks."""
        if self.listed is not None:
            return [version for version in there if version in self.listed]
        return list(there if self.latest is None else there[-self.latest :])

    def absent(self, there: Sequence[str]) -> list[str]:
        """Versions that the rule lists and that aren't there."""
        return [version for version in self.listed or () if version not in there]


ALL = Versions()


def read(value: Any) -> Versions:
    """`"all"`, `"latest"`, `{latest = n}` or a list of versions."""
    if value == "all":
        return ALL
    if value == "latest":
        return Versions(latest=1)
    match value:
        case {"latest": int(count)} if len(value) == 1 and _positive(count):
            return Versions(latest=count)
        case [_, *_] if all(_positive(item) or (isinstance(item, str) and item) for item in value):
            return Versions(listed=tuple(str(item) for item in value))
    raise ValueError('"all", "latest", {latest = 2} or a list of versions such as [1, 3]')


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
