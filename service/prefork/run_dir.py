"""The folder that the workers of one master share while they live: metrics files, later hand-over sockets.

`PINION_RUN_DIR`, or one made for each master in memory. A reload keeps it, a successor that SIGUSR2 starts
inherits it, and the last master that lives removes what was made.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from service.errors import ConfigurationError

_MADE = "_PINION_RUN_DIR_MADE"
"""Environment variable `<pid of the master>:<folder>`; it outlives the re-execution of the configuration file."""

_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder that Linux has for this; what is made in it is private


def in_memory() -> str | None:
    """Folder for small files that are written often; None for the default temporary folder."""
    usable = _SHARED_MEMORY.is_dir() and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return str(_SHARED_MEMORY) if usable else None


def claim(wanted: Path | None) -> Path:
    """Makes the folder known to this process and those forked from it, before prometheus_client is imported.

    Args:
        wanted: the folder that the settings name; None for one of this master.

    Returns:
        The folder.

    Raises:
        ConfigurationError: it can't be made.
    """
    try:
        folder = wanted.absolute() if wanted else _inherited() or _make()
        metrics = folder / "metrics"
        metrics.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigurationError(
            [f"PINION_RUN_DIR: expected a folder that can be written, got {wanted or tempfile.gettempdir()}: {fault}"]
        ) from fault
    os.environ[_METRICS] = str(metrics)
    return folder


def settle(server: Any) -> None:
    """Called when the master starts: its process is the one that stays.

    Empties the metrics folder, unless a master that lives has passed it on; gives it to the workers' user.
    """
    metrics = Path(os.environ[_METRICS])
    if server.master_pid == 0:
        for path in metrics.glob("*.db"):
            path.unlink(missing_ok=True)
    made = _made()
    if made:
        _remember(made[1])
        _Owner.server = server
    if os.geteuid() == 0:
        for folder in (made[1], metrics) if made else (metrics,):
            os.chown(folder, server.cfg.uid, server.cfg.gid)


def pass_on(server: Any) -> None:
    """Called in the process that becomes the new master: it starts with the environment of the old one's start."""
    if _MADE in os.environ:
        server.cfg.env_orig[_MADE] = os.environ[_MADE]


def forget_gauges(metrics_id: str) -> None:
    """Removes the gauges that count only while their process lives.

    Does what `prometheus_client.multiprocess.mark_process_dead` does, without its import in the master: that
    would hold up the successor of the first worker that crashes.
    """
    for path in Path(os.environ[_METRICS]).glob(f"gauge_live*_{metrics_id}.db"):
        path.unlink(missing_ok=True)


class _Owner:
    """The master that removes the folder; None until it has started."""

    server: Any = None
    is_registered = False


def _made() -> tuple[int, Path] | None:
    pid, _, folder = os.environ.get(_MADE, "").partition(":")
    return (int(pid), Path(folder)) if pid.isdigit() and folder else None


def _inherited() -> Path | None:
    """The folder of this master, or of the one whose successor it is; not one that came with a shell."""
    made = _made()
    if made is None or str(made[0]) not in (str(os.getpid()), os.environ.get("GUNICORN_PID")):
        return None
    return _remember(made[1])


def _make() -> Path:
    return _remember(Path(tempfile.mkdtemp(prefix="pinion-", dir=in_memory())))


def _remember(folder: Path) -> Path:
    os.environ[_MADE] = f"{os.getpid()}:{folder}"
    if not _Owner.is_registered:
        _Owner.is_registered = True
        atexit.register(_remove)
    return folder


def _remove() -> None:
    """At the end of a process: workers end here too and leave the folder alone."""
    made = _made()
    if made and made[0] == os.getpid() and not _another_master_lives():
        shutil.rmtree(made[1], ignore_errors=True)


def _another_master_lives() -> bool:
    server = _Owner.server
    if server is None:
        return False
    parent_is_master: bool = server.master_pid != 0 and server.master_pid == os.getppid()
    return parent_is_master or bool(server.reexec_pid)
