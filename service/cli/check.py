"""`python -m service check`: every setting with its origin, and all that is wrong at once."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from service.catalog.config import load_config
from service.catalog.layout import Found, scan
from service.errors import ConfigurationError, ModelLoadError
from service.guard import keyring
from service.settings import ROWS, Resolved, Settings, resolve, variables

_GUNICORNS_TIMEOUT_S = 30
_SHOWN_OF_GUNICORN = ("bind", "workers", "worker_class", "timeout", "graceful_timeout", "keepalive")


def main(arguments: list[str]) -> int:
    """Prints the table and the problems; returns 1 if there is any problem, else 0."""
    parser = argparse.ArgumentParser(prog="python -m service check", description=__doc__)
    parser.add_argument("--document", action="store_true", help="print the page of settings for the docs instead")
    parser.add_argument("--no-load", action="store_true", help="don't open the models")
    options = parser.parse_args(arguments)
    if options.document:
        print(document(), end="")
        return 0
    problems = check(os.environ, load=not options.no_load)
    print()
    for problem in problems:
        print(f"problem: {problem}")
    print(f"{len(problems)} problem(s)" if problems else "No problem was found.")
    return 1 if problems else 0


def check(environ: MutableMapping[str, str], *, load: bool = True) -> list[str]:
    """Everything that is wrong with the settings, the repository, its models and gunicorn's configuration.

    Args:
        environ: of this process. What can't be used is taken out, so that gunicorn.conf.py, which reads it too,
            tells its own faults and not these again.
        load: whether every version of every model is opened and warmed, one after the other.
    """
    resolved, problems = _resolve(environ)
    _print_table(resolved)
    settings = resolved.settings
    models: dict[str, Found] = {}
    try:
        found = scan(settings.models, settings.model_name)
        models = found.models
        problems.extend(f"model {name}: {reason}" for name, reason in found.problems.items())
        problems.extend(_absent_models(resolved, {*models, *found.problems}))
    except ConfigurationError as fault:
        problems.extend(fault.problems)
        environ["PINION_MODELS"] = os.curdir
    problems.extend(keyring.check(settings.api_keys_file, settings.api_keys))
    problems.extend(_take_run_dir(environ))
    kill_after_s, conf_problems = _check_gunicorn(environ, settings.drain_s)
    problems.extend(conf_problems)
    for model in models.values():
        found_problems = _check_model(model, settings, kill_after_s)
        problems.extend(found_problems or (_check_load(model, settings) if load else []))
    if not models:
        print(f"note: the repository {settings.models} holds no model that can be served")
    return problems


def _take_run_dir(environ: MutableMapping[str, str]) -> list[str]:
    """Looks whether the run folder could be made, without making it; gunicorn.conf.py gets to see none."""
    wanted = environ.pop("PINION_RUN_DIR", "")
    if not wanted:
        return []
    nearest = next(folder for folder in (Path(wanted).absolute(), *Path(wanted).absolute().parents) if folder.exists())
    try:
        Path(tempfile.mkdtemp(dir=nearest)).rmdir()
    except OSError as fault:
        return [f"PINION_RUN_DIR: expected a folder that can be written, got {wanted}: {fault}"]
    return []


def _check_gunicorn(environ: MutableMapping[str, str], drain_s: float) -> tuple[float, list[str]]:
    """The `timeout` of gunicorn in seconds, and what is wrong with its file and variables."""
    problems = []
    workers = environ.get("WEB_CONCURRENCY", "1")
    if not workers.strip().isdecimal():
        del environ["WEB_CONCURRENCY"]
        problems.append(f"WEB_CONCURRENCY: expected a whole number, got {workers!r}; gunicorn itself reads it too")
    # Not before: gunicorn reads that variable while it is imported.
    from service.prefork import conf_check, conf_rules  # noqa: PLC0415

    values, faults = conf_check.read_command_line(environ.get("GUNICORN_CMD_ARGS", ""))
    if faults:
        del environ["GUNICORN_CMD_ARGS"]
    conf, conf_faults = conf_check.read()
    effective = conf | values
    _print_gunicorn(effective, values)
    faults += conf_rules.missing_hooks(conf) + conf_rules.impossible(effective, drain_s)
    return effective.get("timeout", _GUNICORNS_TIMEOUT_S), problems + faults + conf_faults


def _print_gunicorn(effective: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    for name in _SHOWN_OF_GUNICORN:
        if name in effective:
            value = effective[name]
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print(f"{name:20} {text:30} {'GUNICORN_CMD_ARGS' if name in said else 'gunicorn.conf.py'}")


def _absent_models(resolved: Resolved, there: set[str]) -> list[str]:
    """A sentence for each model that a setting names and the repository doesn't hold."""
    settings = resolved.settings
    asked = [("default_model", settings.default_model)] if settings.default_model else []
    if settings.ready not in ("all", "any"):
        asked += [("ready", name.strip()) for name in settings.ready.split(",")]
    return [
        f"{resolved.origins[setting]}: there is no model {name!r} in the repository; it has "
        f"{', '.join(sorted(there)) or 'none'}"
        for setting, name in asked
        if name not in there
    ]


def _resolve(environ: MutableMapping[str, str]) -> tuple[Resolved, list[str]]:
    """The settings without the variables that can't be used, and a sentence for each of those."""
    problems: list[str] = []
    while True:
        try:
            return resolve(environ), problems
        except ConfigurationError as fault:
            problems.extend(fault.problems)
            for problem in fault.problems:
                del environ[problem.partition(":")[0]]


def _print_table(resolved: Resolved) -> None:
    print(f"{'setting':20} {'value':30} origin")
    for row in ROWS:
        value = getattr(resolved.settings, row.name)
        print(f"{row.name:20} {_shown(value, secret=row.metadata['secret']):30} {resolved.origins[row.name]}")


def _shown(value: Any, *, secret: bool) -> str:
    if value is None or value == ():
        return "-"
    if secret:
        return "(not shown)"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _check_model(model: Found, settings: Settings, kill_after_s: float) -> list[str]:
    # Not before gunicorn.conf.py was read: it holds back threads that ONNX Runtime would start when it is imported.
    from service.engine import providers  # noqa: PLC0415

    try:
        loaded = load_config(model, settings.on_missing_provider)
    except ConfigurationError as fault:
        return [f"model {model.name}: {problem}" for problem in fault.problems]
    notes, problems = list(loaded.notes), [loaded.too_long(kill_after_s)]
    try:
        notes.extend(loaded.told_at("providers", note) for note in providers.choose(loaded.engine)[1])
    except ModelLoadError as fault:
        problems.append(loaded.told_at("providers", str(fault)))
    for note in notes:
        print(f"note: model {model.name}: {note}")
    return [f"model {model.name}: {problem}" for problem in problems if problem]


def _check_load(found: Found, settings: Settings) -> list[str]:
    from service.catalog.model import Source, open_model  # noqa: PLC0415 - as above
    from service.schedule.merging import Curve  # noqa: PLC0415 - as above

    loaded = load_config(found, settings.on_missing_provider)
    problems = []
    for version in loaded.config.served_versions(list(found.versions)):
        source = Source(found.name, version, found.versions[version], loaded)
        try:
            open_model(source, 1, Curve(merges=False, reason="not tested"))
        except ModelLoadError as fault:
            problems.append(f"model {found.name} version {version}: {fault}")
    return problems


def document() -> str:
    """The page of settings, written from their rows."""
    lines = [
        "# Settings",
        "",
        "Environment variables; written from `service/settings.py` by `python -m service check --document`.",
        "",
        "| variable | default | what it does |",
        "|---|---|---|",
    ]
    for row in ROWS:
        names = ", ".join(f"`{name}`" for name in variables(row))
        default = "-" if row.default in (None, ()) else f"`{row.default}`"
        lines.append(f"| {names} | {default} | {row.metadata['sentence']} |")
    return "\n".join(lines) + "\n"
