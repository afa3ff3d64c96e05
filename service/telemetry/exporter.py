"""prometheus-flask-exporter, and `/metrics`: the one file here that knows Flask.

The exporter counts what Flask answers itself. Inferences are left out: its hooks run before a deferred answer
exists, so they are counted when their run is over (`record`). The exporter's own endpoint answers 500 to
`name[]` with several processes and adds up through a registry made before the fork; the page is built here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flask import Flask, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_flask_exporter import PrometheusMetrics

from service.telemetry.series import merged
from service.telemetry.tally import FINE_NS

_UNMEASURED = (
    "^/metrics/?$",
    "^/v2/health/",
    "^/(healthz|readyz|ping)?$",
    "^/v[12]/models/.*(/infer|:predict)/?$",
    "^/predict/",
    "^/invocations/?$",
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_PLAIN_COUNTER = re.compile(rb"^# (HELP|TYPE) ((?:nv|pinion)_\w+)_total", re.MULTILINE)


def install(app: Flask, more_inferences: Iterable[str]) -> None:
    """Counts the application's requests and serves `/metrics`.

    Args:
        app: the application with all its routes.
        more_inferences: further paths that answer inferences.
    """
    registry = CollectorRegistry()
    excluded = [*_UNMEASURED, *(f"^{re.escape(path)}/?$" for path in more_inferences)]
    PrometheusMetrics(
        app,
        path=None,
        registry=registry,
        group_by="url_rule",
        buckets=[edge / 1e9 for edge in FINE_NS],
        excluded_paths=excluded,
    )

    @app.before_request
    def leave_out_invented_methods() -> None:
        # The method is a label: callers would make as many series as they can think of words.
        if request.method not in _METHODS:
            PrometheusMetrics.do_not_track()(lambda: None)()

    @app.get("/metrics")
    def metrics() -> Response:
        names = request.args.getlist("name[]")
        page = exposition(merged(registry), names)
        return Response(page, content_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Chosen:
    """The families of a registry that have one of the names."""

    def __init__(self, registry: CollectorRegistry, names: list[str]) -> None:
        self._registry = registry
        self._names = set(names)

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if self._wanted(family.name, sample.name)]
            if family.samples:
                yield family

    def _wanted(self, family: str, sample: str) -> bool:
        return family in self._names or sample in self._names


def exposition(registry: CollectorRegistry, names: list[str]) -> bytes:
    """The page in Prometheus's text format, all families or those named."""
    source = registry if not names else _Chosen(registry, names)
    page: bytes = generate_latest(source)
    return _PLAIN_COUNTER.sub(rb"# \1 \2", page)
