"""Furnishes the rooms and connects them; the only file that knows them all."""

from __future__ import annotations

import os
import re
from typing import Any

from flask import Flask

from service.catalog.repository import Repository
from service.host import place
from service.settings import Settings, resolve
from service.telemetry import exporter, logs
from service.telemetry.journal import Journal
from service.telemetry.record import Recorder
from service.telemetry.series import key_files_by, wait_for_others_by
from service.web.alias_routes import alias_routes
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
    recorder = Recorder(Journal(every_request=settings.request_log), place.owe)
    repository = Repository(
        settings, lambda: place.current().threads, recorder.prepare, lambda: place.current().kill_after_s
    )
    desk = Desk(repository, recorder, settings.max_body_bytes)
    app = create_flask()
    app.register_blueprint(v2_routes(desk, place.draining))
    app.register_blueprint(v1_routes(desk))
    app.register_blueprint(alias_routes(desk, settings, place.draining))
    app.open_lane(desk)
    exporter.install(app, [route for route in (settings.predict_route, settings.health_route) if route])
    _offer_hooks(app, repository, recorder)
    return app


def _offer_hooks(app: Any, repository: Repository, recorder: Recorder) -> None:
    """What the fork hooks and the gathering worker call; under another server nobody does, and all is correct."""
    app.pinion_open = repository.open
    app.pinion_fit = repository.fit
    app.pinion_gather = recorder.gather
    app.pinion_flush = recorder.flush
    app.pinion_flush_due = recorder.flush_due
    app.pinion_deferred = (Inference,)
    app.pinion_aside = re.compile("/metrics|/v2/models/(.+/)?stats").fullmatch
