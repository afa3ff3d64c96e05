"""Reads one `model.toml` by its rows, with every fault and its line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from service.catalog.rows import Fault, Faults, Row, read_table, read_value
from service.catalog.side_files import inside, label_lines
from service.catalog.toml_lines import line_of, read_toml
from service.errors import ConfigurationError


def read_model_toml(path: Path, rows: Sequence[Row]) -> tuple[dict[str, Any], dict[str, str]]:
    """What a file sets, by key, and where: file and line, by key too.

    Args:
        path: the file; what it names lies in the same folder.
        rows: the keys.

    Raises:
        ConfigurationError: everything that is wrong, each with file and line.
    """
    document, lines = read_toml(path)
    faults: list[Fault] = []
    given: dict[str, Any] = {}
    for key, value in document.items():
        try:
            given.update(read_table(rows, {key: value}))
            if key in _FILES:
                given[key] = _FILES[key](given[key], path.parent.absolute())
        except Faults as found:
            faults.extend(found.faults)
    if faults:
        raise ConfigurationError([_told(path, line_of(lines, fault.place), fault) for fault in faults])
    return given, {key: _where(path, line_of(lines, (key,))) for key in given}


def _where(path: Path, line: int) -> str:
    return f"{path.name}:{line}"


def _told(path: Path, line: int, fault: Fault) -> str:
    place = f"`{'.'.join(fault.place)}`: " if fault.place else ""
    return f"{_where(path, line)}: {place}{fault.sentence}"


def _with_label_files(labels: Sequence[tuple[str, tuple[str, ...] | str]], folder: Path) -> tuple[Any, ...]:
    return tuple(
        (name, read_value(partial(label_lines, folder), value, ("labels", name)) if isinstance(value, str) else value)
        for name, value in labels
    )


def _warm_up_files(names: Sequence[str], folder: Path) -> tuple[Path, ...]:
    return tuple(read_value(partial(inside, folder), name, ("warm_up",)) for name in names)


_FILES: dict[str, Callable[[Any, Path], Any]] = {"labels": _with_label_files, "warm_up": _warm_up_files}
"""Keys whose values name files beside the model."""
