"""Furnishes the rooms and connects them; the only file that knows them all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from flask import Flask

from service.catalog.repository import Repository
from service.guard.audit import LONGEST_TEXT, Audit
from service.guard.gate import Gate
from service.host import place
from service.settings import Settings, resolve
from service.telemetry import exporter, logs
from service.telemetry.journal import Journal
from service.telemetry.outcome import Outcome
from service.telemetry.record import Recorder, lose
from service.telemetry.series import key_files_by, wait_for_others_by
from service.web.alias_routes import alias_routes
from service.web.door import Door
from service.web.inference import Desk, Inference
from service.web.server import create_flask
from service.web.v1_routes import v1_routes
from service.web.v2_routes import v2_routes
from service.wire import json_numbers


def create_app(settings: Settings | None = None) -> Flask:
    """The application; sessions are opened by `pinion_open`, or at the first use in a process.

    Args:
        settings: None for those of the environment.

    Raises:
        ConfigurationError: the environment's settings can't be used.
    """
    settings = settings or resolve(os.environ).settings
    logs.set_up(settings.log_level)
    json_numbers.announce_absence()
    key_files_by(place.metrics_id)
    wait_for_others_by(place.others_owe)
    gate, audit = Gate.of(settings), _audit(settings)
    recorder = Recorder(Journal(every_request=settings.request_log), place.owe, _told(audit) if audit else None)
    repository = Repository(
        settings, lambda: place.current().threads, recorder.prepare, lambda: place.current().kill_after_s
    )
    desk = Desk(repository, recorder, settings.max_body_bytes, gate)
    app = create_flask()
    app.register_blueprint(v2_routes(desk, place.draining))
    app.register_blueprint(v1_routes(desk))
    app.register_blueprint(alias_routes(desk, settings, place.draining))
    app.open_lane(desk)
    exporter.install(app, [route for route in (settings.predict_route, settings.health_route) if route])
    Door(gate, audit, settings).install(app)
    _offer_hooks(app, repository, recorder)
    if gate is not None:
        _offer_gate(app, gate, audit)
    return app


def _audit(settings: Settings) -> Audit | None:
    return Audit(settings.audit_file, lose) if settings.audit_file else None


def _told(audit: Audit) -> Callable[[Outcome], None]:
    """Writes inferences into the audit."""

    def note(outcome: Outcome) -> None:
        audit.note(
            "request",
            request_id=outcome.request_id,
            key=outcome.key,
            client=outcome.client,
            method=outcome.method[:LONGEST_TEXT],
            path=outcome.path_text(LONGEST_TEXT),
            model=outcome.model,
            version=outcome.version,
            status=outcome.status,
        )

    return note


def _offer_hooks(app: Any, repository: Repository, recorder: Recorder) -> None:
    """What the fork hooks and the gathering worker call; under another server nobody does, and all is correct."""
    app.pinion_open = repository.open
    app.pinion_fit = repository.fit
    app.pinion_gather = recorder.gather
    app.pinion_flush = recorder.flush
    app.pinion_flush_due = recorder.flush_due
    app.pinion_deferred = (Inference,)
    app.pinion_aside = re.compile("/metrics|/v2/models/(.+/)?stats").fullmatch


def _offer_gate(app: Any, gate: Gate, audit: Audit | None) -> None:
    """What the hooks and the worker call besides, where somebody guards the service."""
    fit, gather, flush, flush_due = app.pinion_fit, app.pinion_gather, app.pinion_flush, app.pinion_flush_due
    app.pinion_trust = gate.addresses.trust
    app.pinion_prepay = gate.prepay

    def look() -> None:
        gate.look()
        if audit is not None:
            audit.look()
        fit()

    app.pinion_fit = look
    if audit is None:
        return

    def gather_both() -> None:
        audit.gather()
        gather()

    def flush_both() -> None:
        audit.flush()
        flush()

    def flush_both_due(*, idle: bool) -> bool:
        audit.flush()
        return bool(flush_due(idle=idle))

    app.pinion_gather, app.pinion_flush, app.pinion_flush_due = gather_both, flush_both, flush_both_due
