"""`python -m service plan`: the core plan of this machine, or of a recorded one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from service.errors import ConfigurationError
from service.host.cgroup import format_cpu_list
from service.host.plan import Plan, make_plan
from service.host.topology import read_machine
from service.setting_readers import at_least
from service.settings import resolve


def main(argv: Sequence[str]) -> int:
    """Prints the plan as a table with its reasons, or as JSON.

    Args:
        argv: the arguments after `plan`.

    Returns:
        0; 1 for settings or a recorded machine that can't be used.
    """
    options = _parser().parse_args(argv)
    root = Path("/") if options.machine is None else options.machine
    try:
        workers = options.workers
        if workers is None and options.machine is None:
            workers = _configured(resolve(os.environ).settings.workers)
        plan = make_plan(read_machine(root), workers)
    except ConfigurationError as fault:
        sys.stderr.write("\n".join(fault.problems) + "\n")
        return 1
    except (FileNotFoundError, ValueError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    print(json.dumps(dataclasses.asdict(plan), indent=2) if options.json else _table(plan))
    return 0


def _configured(wanted: int | None) -> int | None:
    """The number of workers as gunicorn would find it: on its command line, then in its file, then in the variables."""
    from service.prefork import conf_check  # noqa: PLC0415 - a recorded machine is looked at without gunicorn

    os.environ.pop("PINION_RUN_DIR", None)  # the file would make it
    said, _ = conf_check.read_command_line(os.environ.get("GUNICORN_CMD_ARGS", ""))
    conf, _ = conf_check.read()
    workers: int | None = said.get("workers", conf.get("workers"))
    return workers if workers is not None and workers > 0 else wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m service plan", description="Shows which cores each worker gets.")
    parser.add_argument("--workers", type=_workers, help="number of workers; default: as the service would choose")
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="DIR",
        help="a recorded machine: a folder with its sys/devices/system/{cpu,node}, proc/self/{cgroup,mountinfo} and "
        "sys/fs/cgroup, copied by `cp -r --parents`; a file DIR/affinity (0-3,8) stands for the process's CPU mask",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _workers(text: str) -> int:
    try:
        return at_least(1)(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"expected {fault}, got {text!r}") from fault


def _table(plan: Plan) -> str:
    lines = ["lane  threads  CPUs"]
    lines += [f"{number:4}  {lane.threads:7}  {format_cpu_list(lane.cpus)}" for number, lane in enumerate(plan.lanes)]
    lines += ["", *plan.reasons]
    lines += [f"Warning: {sentence}" for sentence in plan.warnings]
    return "\n".join(lines)
