"""Addresses that other platforms call: probes, SageMaker, Vertex AI, short predictions."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, jsonify, request

from service.errors import InvalidRequest
from service.settings import Settings
from service.web import door
from service.web.inference import Desk, Inference
from service.web.protocols import form_v1
from service.web.server import DeferredResponse
from service.web.v2_routes import readiness


def alias_routes(desk: Desk, settings: Settings, draining: Callable[[], bool]) -> Blueprint:
    """Every further address of the same answers."""
    routes = Blueprint("alias", __name__)
    repository = desk.repository

    @routes.get("/")
    def alive() -> Response:
        return jsonify(status="alive")

    @routes.get("/healthz")
    def live() -> Response:
        return jsonify(live=True)

    def ready() -> tuple[Response, int]:
        return readiness(repository, draining=draining())

    def predict_default() -> Response:
        return _predict(desk, _default(desk, settings.default_model))

    def predict(name: str) -> Response:
        return _predict(desk, name)

    for rule in ("/readyz", "/ping", settings.health_route):
        if rule is not None:
            routes.add_url_rule(rule, endpoint=f"ready:{rule}", view_func=ready, methods=["GET"])
    routes.post("/predict/<name>")(predict)
    for rule in ("/invocations", settings.predict_route):
        if rule is not None:
            routes.add_url_rule(rule, endpoint=f"predict:{rule}", view_func=predict_default, methods=["POST"])
    return routes


def _predict(desk: Desk, name: str) -> Response:
    environ = request.environ
    return DeferredResponse(Inference(desk, environ, desk.target(name, None, form_v1(environ), environ)))


def _default(desk: Desk, configured: str | None) -> str:
    name = desk.repository.default_name(configured)
    if name is None:
        door.admit_inference(desk.gate, request.environ)
        names = [name for name in desk.repository.names() if door.may_see(name)]
        raise InvalidRequest(
            f"this address names no model and the repository has {', '.join(names) or 'none'}; set "
            "PINION_DEFAULT_MODEL, or ask /v1/models/<name>:predict",
            expected=names,
        )
    return name
