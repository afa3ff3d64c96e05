"""What a `config.pbtxt` sets while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from service.catalog.pbtxt import Field
from service.catalog.triton_schema import Findings
from service.engine.options import Provider


class Setting(NamedTuple):
    """One value for a field of the model's configuration, and the key that it comes from."""

    field: str
    value: Any
    source: str
    where: str


@dataclass(slots=True)
class Draft:
    """What has been read so far.

    Attributes:
        found: notes and problems.
        folder: the model's.
        model_name: of the model.
        labels: class names by output.
        accelerators: execution providers asked for, in their order.
        gpu: the device of the first instance group on a GPU; None for none.
        asked_at: what asked first for other providers than the CPU.
        cuda_options: of the CUDA provider, from the model's parameters.
        entries: session configuration entries.
    """

    found: Findings
    folder: Path
    model_name: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    accelerators: list[Provider] = field(default_factory=list)
    gpu: str | None = None
    asked_at: Field | None = None
    cuda_options: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    _settings: list[Setting] = field(default_factory=list)

    def set(self, name: str, value: Any, at: Field) -> None:
        """Takes a value for a field of the configuration; None changes nothing."""
        if value is not None:
            self._settings.append(Setting(name, value, at.name, self.found.where(at.line)))

    def settings(self) -> Iterator[Setting]:
        """Everything that was set."""
        yield from self._settings
        if self.labels:
            yield Setting("labels", tuple(self.labels.items()), "label_filename", self.found.file_name)
        if self.entries:
            yield Setting("entries", tuple(self.entries.items()), "parameters", self.found.file_name)
