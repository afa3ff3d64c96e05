"""Time series in prometheus_client's files, or in memory where there is one process.

prometheus_client's own classes would add `_total` to every counter's name, which Triton's dashboards don't know,
and can't add several observations at once. The values beneath them can: one file a process and type, merged at
a scrape by the library itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_OTHERS_WRITE_S, _LOOK_S = 0.03, 0.001


class Key(NamedTuple):
    """Names one sample.

    Attributes:
        kind: `counter`, `histogram` or `gauge` (the largest over all processes).
        metric: name of the family.
        sample: name of the sample, the family's or with `_bucket` or `_sum` behind it.
        labels: names of the labels.
        label_values: their values.
        text: the family's help.
    """

    kind: str
    metric: str
    sample: str
    labels: tuple[str, ...]
    label_values: tuple[str, ...]
    text: str


def shared() -> bool:
    """Whether several processes count together."""
    return bool(os.environ.get(FOLDER_VARIABLE))


_named_by: list[Callable[[], str]] = []


def _metrics_id() -> str:
    return _named_by[0]()


def key_files_by(metrics_id: Callable[[], str]) -> None:
    """Names this process's files by `metrics_id` instead of its process id.

    A successor with the same id goes on counting in the same file, so that files stay few and totals never fall.
    Has to be called before any metric is created; a later call only replaces `metrics_id`, since two writers of one
    file would overwrite each other.

    Args:
        metrics_id: gives what no other living process has, without `_`; asked again at each write, so that a forked
            child changes to its own file.
    """
    first = not _named_by
    _named_by[:] = [metrics_id]
    if first and shared():
        Path(os.environ[FOLDER_VARIABLE]).mkdir(parents=True, exist_ok=True)
        values.ValueClass = values.MultiProcessValue(_metrics_id)  # type: ignore[no-untyped-call] # the library's gap


class Store:
    """The samples of this process."""

    def __init__(self) -> None:
        self._values: dict[Key, Any] = {}

    def value(self, key: Key) -> Any:
        """What holds a sample, 0 at first: `inc` adds to it, `set` replaces it."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = values.ValueClass(
                key.kind, key.metric, key.sample, key.labels, key.label_values, key.text, multiprocess_mode="max"
            )
        return value

    def collect(self) -> Iterable[Metric]:
        """prometheus_client's collector: the families of this process."""
        families: dict[str, Metric] = {}
        running: dict[tuple[str, tuple[str, ...]], float] = {}
        names: dict[str, tuple[str, ...]] = {}
        for key in sorted(list(self._values), key=_exposition_order):  # noqa: C414 - another thread may add to it meanwhile
            family = families.setdefault(key.metric, Metric(key.metric, key.text, key.kind))
            amount = self._values[key].get()
            if key.sample.endswith("_bucket"):
                series = (key.metric, key.label_values[:-1])
                amount = running[series] = running.get(series, 0.0) + amount
                names[key.metric] = key.labels[:-1]
            family.samples.append(Sample(key.sample, dict(zip(key.labels, key.label_values, strict=True)), amount))
        for (metric, label_values), count in running.items():
            labels = names[metric]
            families[metric].samples.append(
                Sample(f"{metric}_count", dict(zip(labels, label_values, strict=True)), count)
            )
        return families.values()


def _exposition_order(key: Key) -> tuple[str, tuple[str, ...], float]:
    edge = float(key.label_values[-1]) if key.sample.endswith("_bucket") else -1.0
    return key.metric, key.label_values[:-1] if edge >= 0 else key.label_values, edge


STORE = Store()


class _Files:
    """prometheus_client's collector of what all processes have written."""

    def collect(self) -> Iterable[Metric]:
        # A file that a process is just making has nothing in it yet, which the library takes for damage.
        paths = [str(path) for path in Path(os.environ[FOLDER_VARIABLE]).glob("*.db") if path.stat().st_size]
        families: Iterable[Metric] = MultiProcessCollector.merge(paths)  # type: ignore[no-untyped-call] # the library's gap
        return families


_others_owe: list[Callable[[], bool]] = []


def wait_for_others_by(others_owe: Callable[[], bool]) -> None:
    """Lets readers wait a moment while `others_owe` says that another process has counts to write."""
    _others_owe[:] = [others_owe]


def _wait_for_others() -> None:
    deadline_s = time.monotonic() + _OTHERS_WRITE_S
    while any(owe() for owe in _others_owe) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)


def merged(own: CollectorRegistry) -> CollectorRegistry:
    """A registry with the samples of all processes, or of this one where it is alone.

    Waits up to 30 ms for processes that have counts to write: idle ones do it within 20 ms, busy ones ten times a
    second.

    Args:
        own: where the Flask exporter registered its metrics.
    """
    registry = CollectorRegistry()
    _wait_for_others()
    for collector in (_Files(),) if shared() else (STORE, own):
        registry.register(collector)
    return registry
