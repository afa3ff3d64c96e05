"""What `gunicorn.conf.py` asks for when it is read: settings, addresses, the default number of workers."""

from __future__ import annotations

import os
import resource
import shlex
import sys
from pathlib import Path

import gunicorn
from gunicorn.config import Config

from service.errors import ConfigurationError
from service.host.plan import make_plan
from service.host.topology import read_machine
from service.prefork import run_dir
from service.settings import Settings, resolve

_STOCK_CONNECTIONS = 64
_MOST_CONNECTIONS = 10_000
_FILES_KEPT_FREE = 200


def prepare() -> Settings:
    """Reads the settings and claims the run folder; ends the start with all problems if they can't be used."""
    _forget_gunicorns_own_folder()
    try:
        settings = resolve(os.environ).settings
        _check_files(settings)
        run_dir.claim(settings.run_dir)
    except ConfigurationError as fault:
        lines = ["The configuration can't be used:", *(f"  {problem}" for problem in fault.problems)]
        sys.stderr.write("\n".join(lines) + "\n")
        raise SystemExit(1) from None
    return settings


def _check_files(settings: Settings) -> None:
    folder, keys, audit = settings.models, settings.api_keys_file, settings.audit_file
    problems = []
    if not folder.is_dir():
        problems.append(f"PINION_MODELS: expected a folder with models, got {folder.absolute()}, which isn't one")
    if keys is not None and not (keys.is_file() and os.access(keys, os.R_OK)):
        problems.append(f"PINION_API_KEYS_FILE: expected a file that can be read, got {keys}")
    if audit is not None and not os.access(audit if audit.exists() else audit.absolute().parent, os.W_OK):
        problems.append(f"PINION_AUDIT_FILE: expected a file in a folder that can be written, got {audit}")
    if problems:
        raise ConfigurationError(problems)


def _forget_gunicorns_own_folder() -> None:
    """A second master (SIGUSR2) of `python -m gunicorn` has it first in its path, and its `http` hides Python's."""
    # Links resolved: Python does so for this entry and not for the others.
    own = Path(gunicorn.__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != own]


def addresses(settings: Settings) -> list[str]:
    """Where to listen: this machine only until a port is set; then the operators' address."""
    main = "127.0.0.1:8000" if settings.port is None else f"0.0.0.0:{settings.port}"
    return [main, settings.operator_bind] if settings.operator_bind else [main]


def default_workers() -> int:
    """One worker for each lane of the plan."""
    return len(make_plan(read_machine(), None).lanes)


def io_threads(wanted: int) -> int:
    """Threads of a stock worker; 1 if the command line asks for `sync`.

    With more than one, gunicorn runs `gthread` when it is asked for `sync`, and says nothing.
    """
    return 1 if _asked_worker_class() == "sync" else wanted


def connections() -> int:
    """Open connections of one worker: what its files allow, or few for a stock worker on the command line.

    A stock worker that takes many leaves other workers idle; ours shares them out.
    """
    if _asked_worker_class() in ("sync", "gthread"):
        return _STOCK_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_CONNECTIONS, files - _FILES_KEPT_FREE))


def _asked_worker_class() -> str | None:
    """The worker class that the command line or GUNICORN_CMD_ARGS name, which win over the file."""
    parser = Config().parser()
    for arguments in (sys.argv[1:], shlex.split(os.environ.get("GUNICORN_CMD_ARGS", ""))):
        options, _ = parser.parse_known_args(arguments)
        if options.worker_class is not None:
            name: str = options.worker_class
            return name
    return None
