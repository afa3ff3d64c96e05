"""Reads gunicorn.conf.py as gunicorn would, and finds the names that it would ignore without a word."""

from __future__ import annotations

import difflib
import runpy
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gunicorn.config import Config

_FILE = Path("gunicorn.conf.py")
_OURS = frozenset({"settings", "hooks", "start", "run_dir", "os"})


def read(path: Path = _FILE) -> tuple[dict[str, Any], list[str]]:
    """What the file sets, and a sentence for each name that gunicorn doesn't know.

    Args:
        path: the file; where it isn't there, nothing is set and nothing is wrong.
    """
    if not path.is_file():
        return {}, []
    try:
        names = runpy.run_path(str(path))
    except SystemExit:
        return {}, []
    except Exception as fault:  # noqa: BLE001 - whatever an operator wrote is told in a sentence
        return {}, [f"{path}: {type(fault).__name__}: {fault}"]
    known = Config().settings
    problems = []
    for name, value in names.items():
        if name.startswith("_") or name in known or name in _OURS or isinstance(value, ModuleType | FunctionType):
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        problems.append(f"{path}: gunicorn has no setting '{name}' and would ignore it{hint}")
    return {name: value for name, value in names.items() if name in known}, problems
