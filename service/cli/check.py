"""`python -m service check`: every setting with its origin, and all that is wrong at once."""

from __future__ import annotations

import argparse
import os
from collections.abc import MutableMapping

from service.catalog.config import load_config
from service.catalog.layout import Found, scan
from service.errors import ConfigurationError
from service.prefork import conf_check
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
    """Everything that is wrong with the settings, the repository, its models and gunicorn.conf.py.

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
    except ConfigurationError as fault:
        problems.extend(fault.problems)
        environ["PINION_MODELS"] = os.curdir
    conf, conf_problems = conf_check.read()
    problems.extend(conf_problems)
    for model in models.values():
        problems.extend(_check_model(model, settings, conf.get("timeout", _GUNICORNS_TIMEOUT_S)))
    return problems


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


def _check_model(model: Found, settings: Settings, server_timeout_s: float) -> list[str]:
    try:
        loaded = load_config(model, settings.on_missing_provider)
    except ConfigurationError as fault:
        return [f"model {model.name}: {problem}" for problem in fault.problems]
    for note in loaded.notes:
        print(f"note: model {model.name}: {note}")
    if server_timeout_s == 0 or loaded.config.timeout_s < server_timeout_s:  # 0: gunicorn kills no worker
        return []
    sentence = (
        f"model {model.name}: timeout_s is {loaded.config.timeout_s:g}, expected less than gunicorn's timeout of "
        f"{server_timeout_s:g}: a worker would be killed before the request's time is up"
    )
    return [sentence]


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
