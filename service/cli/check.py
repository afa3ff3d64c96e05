"""`python -m service check`: every setting with its origin, and all that is wrong at once."""

from __future__ import annotations

import argparse
import os
from collections.abc import MutableMapping

from service.catalog.config import load_config
from service.catalog.layout import Found, scan
from service.errors import ConfigurationError, ModelLoadError
from service.settings import ROWS, Resolved, Settings, resolve, variables

_GUNICORNS_TIMEOUT_S = 30


def main(arguments: list[str]) -> int:
    """Prints the table and the problems; returns 1 if there is any problem, else 0."""
    parser = argparse.ArgumentParser(prog="python -m service check", description=__doc__)
    parser.add_argument("--document", action="store_true", help="print the page of settings for the docs instead")
    options = parser.parse_args(arguments)
    if options.document:
        print(document(), end="")
        return 0
    problems = check(os.environ)
    print()
    for problem in problems:
        print(f"problem: {problem}")
    print(f"{len(problems)} problem(s)" if problems else "No problem was found.")
    return 1 if problems else 0


def check(environ: MutableMapping[str, str]) -> list[str]:
    """Everything that is wrong with the settings, the repository, its models and gunicorn's configuration.

    Args:
        environ: of this process. What can't be used is taken out, so that gunicorn.conf.py, which reads it too,
            tells its own faults and not these again.
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
    kill_after_s, conf_problems = _check_gunicorn(environ)
    problems.extend(conf_problems)
    for model in models.values():
        problems.extend(_check_model(model, settings, kill_after_s))
    return problems


def _check_gunicorn(environ: MutableMapping[str, str]) -> tuple[float, list[str]]:
    """The `timeout` of gunicorn in seconds, and what is wrong with its file and variables."""
    problems = []
    workers = environ.get("WEB_CONCURRENCY", "1")
    if not workers.strip().isdecimal():
        del environ["WEB_CONCURRENCY"]
        problems.append(f"WEB_CONCURRENCY: expected a whole number, got {workers!r}; gunicorn itself reads it too")
    # Not before: gunicorn reads that variable while it is imported.
    from service.prefork import conf_check  # noqa: PLC0415

    values, faults = conf_check.read_command_line(environ.get("GUNICORN_CMD_ARGS", ""))
    if faults:
        del environ["GUNICORN_CMD_ARGS"]
    conf, conf_faults = conf_check.read()
    return (conf | values).get("timeout", _GUNICORNS_TIMEOUT_S), problems + faults + conf_faults


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
        print(f"{row.name:20} {'-' if value is None else str(value):30} {resolved.origins[row.name]}")


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
        default = "-" if row.default is None else f"`{row.default}`"
        lines.append(f"| {names} | {default} | {row.metadata['sentence']} |")
    return "\n".join(lines) + "\n"
