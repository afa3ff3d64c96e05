"""The models of a folder, each version a state: loading, ready, or unavailable with its reason."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.catalog.config import LoadedConfig, load_config
from service.catalog.layout import Found, scan
from service.catalog.model import Model, Source, open_model
from service.errors import ConfigurationError, ModelLoadError, NotReady, UnknownModel, UnknownVersion
from service.settings import Settings

_log = logging.getLogger(__name__)

READY, LOADING, UNAVAILABLE = "READY", "LOADING", "UNAVAILABLE"
_RETRY_S = "1"


@dataclass(slots=True)
class Version:
    """One version of a model: its state, the reason where it isn't ready, and the model where it is."""

    version: str
    state: str = LOADING
    reason: str = ""
    model: Model | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One line of the repository index."""

    name: str
    version: str
    state: str
    reason: str


class Repository:
    """All models of one folder, opened once in each process that serves them."""

    def __init__(
        self,
        settings: Settings,
        lane_threads: Callable[[], int],
        opened: Callable[[str, str], None],
        kill_after_s: Callable[[], float] = float,
    ) -> None:
        """Nothing is read or opened yet: the process that will serve may still have to be forked.

        Args:
            settings: of the service: folder, names, the rule of readiness.
            lane_threads: gives the number of threads of this process's lane.
            opened: told the name and version of every model that is ready.
            kill_after_s: gives the seconds after which this process is killed if it is busy so long; 0 for never.
        """
        self._folder = settings.models
        self._model_name = settings.model_name
        self._ready = settings.ready
        self._on_missing_provider = settings.on_missing_provider
        self._fast_json_bytes = settings.fast_json_bytes
        self._lane_threads = lane_threads
        self._opened = opened
        self._kill_after_s = kill_after_s
        self._lock = threading.Lock()
        self._is_open = False
        os.register_at_fork(after_in_child=self._forget)
        self._versions: dict[str, dict[str, Version]] = {}
        self._default: dict[str, Model] = {}

    def open(self) -> None:
        """Opens every model for this process, once a process id; a model that fails is a state, no error."""
        with self._lock:
            if self._is_open:
                return
            self._versions, self._default = {}, {}
            self._open_all()
            self._is_open = True

    def _forget(self) -> None:
        """A forked process opens its own sessions: a pool of threads doesn't survive a fork."""
        self._lock = threading.Lock()
        self._is_open = False

    def fit(self) -> None:
        """Opens sessions anew whose number of threads is no longer that of the lane; the old ones serve meanwhile.

        For one thread beside those that serve. A session that can't be opened again stays as it is.
        """
        if not self._is_open:
            return
        threads = self._lane_threads()
        for name, versions in self._versions.items():
            for row in versions.values():
                model, source = row.model, row.source
                if model is None or source is None or model.config.threads is not None or model.threads == threads:
                    continue
                try:
                    fitted = open_model(source, threads, model.curve)
                except ModelLoadError as fault:
                    _log.warning("model %s keeps %d thread(s): %s", name, model.threads, fault)
                    continue
                row.model = fitted
                if self._default.get(name) is model:
                    self._default[name] = fitted
                _log.info("model %s version %s: %d thread(s) now", name, row.version, threads)

    def get(self, name: str, version: str | None = None) -> Model:
        """The model that answers.

        Args:
            name: of the model.
            version: None for the newest that is ready.

        Raises:
            UnknownModel, UnknownVersion: there is none.
            NotReady: it is there and could not be loaded; the message says why.
        """
        if not self._is_open:
            self.open()
        if version is None:
            model = self._default.get(name)
            if model is not None:
                return model
        versions = self._versions.get(name)
        if versions is None:
            raise UnknownModel(f"there is no model '{name}'; POST /v2/repository/index lists those there are")
        if version is None:
            raise _unavailable(name, next(reversed(versions.values())))
        found = versions.get(version)
        if found is None:
            raise UnknownVersion(
                f"model '{name}' has no version '{version}'; it has {', '.join(versions)}", received=version
            )
        if found.model is None:
            raise _unavailable(name, found)
        return found.model

    def default_name(self, configured: str | None) -> str | None:
        """The model that answers requests which name none: the configured one, else the only one."""
        self.open()
        if configured is not None:
            return configured
        return next(iter(self._versions)) if len(self._versions) == 1 else None

    def names(self) -> list[str]:
        """Names of all models, ready or not."""
        self.open()
        return sorted(self._versions)

    def versions(self, name: str) -> list[str]:
        """Versions of a model, ready or not, the oldest first."""
        self.open()
        return list(self._versions.get(name, ()))

    def models(self) -> list[Model]:
        """Every version that is ready."""
        self.open()
        found = [row.model for versions in self._versions.values() for row in versions.values()]
        return [model for model in found if model is not None]

    def index(self) -> list[IndexRow]:
        """Every known version with its state."""
        self.open()
        return [
            IndexRow(name, row.version, row.state, row.reason)
            for name, versions in sorted(self._versions.items())
            for row in versions.values()
        ]

    def missing(self) -> list[str]:
        """What keeps the server from being ready by its rule, a sentence each; empty when it is ready."""
        self.open()
        if self._ready == "any":
            if self._default or not self._versions:
                return []
            return ["no model is ready", *map(self._why, sorted(self._versions))]
        wanted = sorted(self._versions)
        if self._ready != "all":
            wanted = [name.strip() for name in self._ready.split(",")]
        return [self._why(name) for name in wanted if name not in self._default]

    def _why(self, name: str) -> str:
        versions = self._versions.get(name)
        if versions is None:
            return f"model '{name}' is not in the repository"
        newest = next(reversed(versions.values()))
        return f"model '{name}': {newest.reason or newest.state}"

    def _open_all(self) -> None:
        found = scan(self._folder, self._model_name)
        for name, reason in found.problems.items():
            self._versions[name] = {"1": Version("1", UNAVAILABLE, reason)}
            _log.error("model %s can't be served: %s", name, reason)
        for name, layout in found.models.items():
            self._open_versions(name, layout)
        if not self._versions:
            _log.warning("the repository %s holds no model", self._folder)

    def _open_versions(self, name: str, layout: Found) -> None:
        rows = self._versions[name] = {version: Version(version) for version in layout.versions}
        try:
            loaded = load_config(layout, self._on_missing_provider, self._fast_json_bytes)
        except ConfigurationError as fault:
            for row in rows.values():
                row.state, row.reason = UNAVAILABLE, "; ".join(fault.problems)
            _log.error("model %s can't be served: %s", name, "; ".join(fault.problems))
            return
        for note in loaded.notes:
            _log.info("model %s: %s", name, note)
        too_long = loaded.too_long(self._kill_after_s())
        if too_long is not None:
            _log.warning("model %s: %s", name, too_long)
            loaded = dataclasses.replace(loaded, notes=(*loaded.notes, too_long))
        served = loaded.config.served_versions(list(layout.versions))
        for version, row in rows.items():
            if version in served:
                self._open_version(name, row, layout.versions[version], loaded)
            else:
                row.state, row.reason = UNAVAILABLE, "not among the versions to serve"

    def _open_version(self, name: str, row: Version, path: Path, loaded: LoadedConfig) -> None:
        try:
            row.source = Source(name, row.version, path, loaded)
            row.model = open_model(row.source, self._lane_threads())
        except ModelLoadError as fault:
            row.state, row.reason = UNAVAILABLE, str(fault)
            _log.error("model %s version %s can't be served: %s", name, row.version, fault)
            return
        except Exception:  # noqa: BLE001 - whatever it is, the other models are served
            row.state, row.reason = UNAVAILABLE, "internal error while it was opened; the log has the reason"
            _log.exception("model %s version %s can't be served", name, row.version)
            return
        row.state = READY
        self._default[name] = row.model
        self._opened(name, row.version)
        _log.info(
            "model %s version %s is ready after %.2f s on %s with %d thread(s)",
            name,
            row.version,
            row.model.load_s,
            ", ".join(row.model.providers),
            row.model.threads,
        )


def _unavailable(name: str, row: Version) -> NotReady:
    return NotReady(
        f"model '{name}' version {row.version} is not ready: {row.reason or row.state}",
        headers=(("Retry-After", _RETRY_S),),
    )
