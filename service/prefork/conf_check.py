"""Reads gunicorn.conf.py and GUNICORN_CMD_ARGS as gunicorn would; finds what it would refuse, or ignore silently."""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import runpy
import shlex
import traceback
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gunicorn.config import Config

_FILE = Path("gunicorn.conf.py")
_VARIABLE = "GUNICORN_CMD_ARGS"
_OURS = frozenset({"settings"})
_ALMOST_A_HOOK = 0.8


def read(path: Path = _FILE) -> tuple[dict[str, Any], list[str]]:
    """What the file sets, and a sentence for each thing that is wrong with it.

    Args:
        path: the file; where it isn't there, nothing is set and nothing is wrong.

    Returns:
        The values that gunicorn takes, as it understands them, and the problems, each with file and line.
    """
    if not path.is_file():
        return {}, []
    names, problems = _run(path)
    config = Config()
    lines = _lines(path) if names else {}
    values: dict[str, Any] = {}
    for name, value in names.items():
        where = f"{path}:{lines[name]}" if name in lines else str(path)
        if name in config.settings:
            problems.extend(_take(config, values, where, name, value))
        else:
            problems.extend(_unknown(where, name, value, list(config.settings)))
    return values, problems


def read_command_line(text: str) -> tuple[dict[str, Any], list[str]]:
    """What GUNICORN_CMD_ARGS sets, and a sentence for each thing that is wrong with it.

    Args:
        text: of the variable.
    """
    config = Config()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options = config.parser().parse_args(shlex.split(text))
    except ValueError as fault:
        return {}, [f"{_VARIABLE}: {fault}, got {text!r}"]
    except SystemExit:
        sentence = said.getvalue().rstrip().rpartition("error: ")[2]
        return {}, [f"{_VARIABLE}: {sentence}"]
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in vars(options).items():
        if value is not None and name in config.settings:
            problems.extend(_take(config, values, _VARIABLE, name, value))
    return values, problems


def _take(config: Config, values: dict[str, Any], where: str, name: str, value: Any) -> list[str]:
    try:
        config.set(name, value)
    except (TypeError, ValueError) as fault:
        return [f"{where}: gunicorn refuses {name} = {value!r}: {fault}"]
    values[name] = config.settings[name].get()
    return []


def _run(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The names that the file leaves, or why it ends the start."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return runpy.run_path(str(path)), []
    except SystemExit as end:
        told = [line.strip() for line in said.getvalue().splitlines() if line.startswith("  ")]
        return {}, told or [f"{path}: ends the start with exit status {end.code}"]
    except SyntaxError as fault:
        return {}, [f"{path}:{fault.lineno}: {fault.msg}"]
    except Exception as fault:  # noqa: BLE001 - whatever an operator wrote is told in a sentence
        lines = [f":{at.lineno}" for at in traceback.extract_tb(fault.__traceback__) if at.filename == str(path)]
        return {}, [f"{path}{lines[-1] if lines else ''}: {type(fault).__name__}: {fault}"]


def _lines(path: Path) -> dict[str, int]:
    """The last line on which each name is set."""
    lines: dict[str, int] = {}
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            lines[node.id] = max(node.lineno, lines.get(node.id, 0))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            lines[node.name] = max(node.lineno, lines.get(node.name, 0))
    return lines


def _unknown(where: str, name: str, value: Any, known: list[str]) -> list[str]:
    """Nothing for what an operator may well have; a function is told only if it looks like a misspelt hook."""
    if name.startswith("_") or name in _OURS:
        return []
    is_code = isinstance(value, ModuleType | FunctionType | type)
    near = difflib.get_close_matches(name, known, n=1, cutoff=_ALMOST_A_HOOK if is_code else 0.6)
    if is_code and not near:
        return []
    hint = f"; did you mean {near[0]}?" if near else "; a name of your own starts with _"
    return [f"{where}: gunicorn has no setting '{name}' and would ignore it{hint}"]
