"""Reads gunicorn.conf.py as gunicorn would, and finds what it would refuse, or ignore without a word."""

from __future__ import annotations

import contextlib
import difflib
import io
import runpy
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gunicorn.config import Config

_FILE = Path("gunicorn.conf.py")
_OURS = frozenset({"settings"})
_ALMOST_A_HOOK = 0.8


def read(path: Path = _FILE) -> tuple[dict[str, Any], list[str]]:
    """What the file sets, and a sentence for each thing that is wrong with it.

    Args:
        path: the file; where it isn't there, nothing is set and nothing is wrong.

    Returns:
        The values that gunicorn takes, as it understands them, and the problems.
    """
    if not path.is_file():
        return {}, []
    names, problems = _run(path)
    config = Config()
    values = {}
    for name, value in names.items():
        if name not in config.settings:
            problems.extend(_unknown(path, name, value, list(config.settings)))
            continue
        try:
            config.set(name, value)
        except (TypeError, ValueError) as fault:
            problems.append(f"{path}: gunicorn refuses {name} = {value!r}: {fault}")
        else:
            values[name] = config.settings[name].get()
    return values, problems


def _run(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The names that the file leaves, or why it ends the start."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return runpy.run_path(str(path)), []
    except SystemExit as end:
        told = [line.strip() for line in said.getvalue().splitlines() if line.startswith("  ")]
        return {}, told or [f"{path}: ends the start with exit status {end.code}"]
    except Exception as fault:  # noqa: BLE001 - whatever an operator wrote is told in a sentence
        return {}, [f"{path}: {type(fault).__name__}: {fault}"]


def _unknown(path: Path, name: str, value: Any, known: list[str]) -> list[str]:
    """Nothing for what an operator may well have; a function is told only if it looks like a misspelt hook."""
    if name.startswith("_") or name in _OURS:
        return []
    is_code = isinstance(value, ModuleType | FunctionType | type)
    near = difflib.get_close_matches(name, known, n=1, cutoff=_ALMOST_A_HOOK if is_code else 0.6)
    if is_code and not near:
        return []
    hint = f"; did you mean {near[0]}?" if near else "; a name of your own starts with _"
    return [f"{path}: gunicorn has no setting '{name}' and would ignore it{hint}"]
