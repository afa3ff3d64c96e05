"""Routes of TensorFlow Serving's REST API, as KServe's v1 clients use them too."""

from __future__ import annotations

from typing import Any, NoReturn

from flask import Blueprint, Response, jsonify, request

from service.catalog.repository import IndexRow, Repository
from service.errors import MethodNotAllowed, NotOffered, NotReady, UnknownModel, UnknownVersion
from service.web import door
from service.web.inference import Desk, Inference
from service.web.protocols import form_v1
from service.web.server import DeferredResponse
from service.web.v2_routes import model_metadata

_MODEL = "/models/<name>"
_VERSION = "/models/<name>/versions/<version>"
_STATES = {"READY": "AVAILABLE", "LOADING": "LOADING", "UNAVAILABLE": "END"}


def v1_routes(desk: Desk) -> Blueprint:
    """All routes under `/v1`."""
    routes = Blueprint("v1", __name__, url_prefix="/v1")
    repository = desk.repository

    def predict(name: str, version: str | None = None) -> Response:
        environ = request.environ
        return DeferredResponse(Inference(desk, environ, desk.target(name, version, form_v1(environ), environ)))

    routes.post(f"{_MODEL}:predict")(predict)
    routes.post(f"{_VERSION}:predict")(predict)

    @routes.get("/models")
    def models() -> Response:
        return jsonify(models=[name for name in repository.names() if door.may_see(name)])

    def status(name: str, version: str | None = None) -> tuple[Response, int]:
        rows = _rows(repository, name, version)
        ready = any(row.state == "READY" for row in rows)
        document: dict[str, Any] = {
            "name": name,
            "ready": ready,
            "model_version_status": [_version_status(row) for row in reversed(rows)],
        }
        if not ready:
            document["error"] = f"model '{name}' is not ready: {rows[-1].reason or rows[-1].state}"
        return jsonify(document), 200 if ready else NotReady.status

    def metadata(name: str, version: str | None = None) -> Response:
        model = repository.get(name, version)
        return jsonify(
            model_spec={"name": name, "signature_name": "", "version": model.version},
            metadata=model_metadata(model, repository.versions(name)),
        )

    for rule in (_MODEL, _VERSION):
        routes.get(rule)(status)
        routes.get(f"{rule}/metadata")(metadata)
    _not_offered(routes)
    return routes


def _rows(repository: Repository, name: str, version: str | None) -> list[IndexRow]:
    rows = [row for row in repository.index() if row.name == name]
    if not rows and name.endswith(":predict"):
        # A GET of a prediction looks like the status of a model with an odd name.
        raise MethodNotAllowed(
            "predictions take POST, not GET", expected=["POST"], received="GET", headers=(("Allow", "POST"),)
        )
    if not rows:
        raise UnknownModel(f"there is no model '{name}'; GET /v1/models lists those there are")
    chosen = [row for row in rows if version in (None, row.version)]
    if not chosen:
        raise UnknownVersion(f"model '{name}' has no version '{version}'")
    return chosen


def _version_status(row: IndexRow) -> dict[str, Any]:
    failed = row.state == "UNAVAILABLE"
    return {
        "version": row.version,
        "state": _STATES[row.state],
        "status": {"error_code": "UNKNOWN" if failed else "OK", "error_message": row.reason},
    }


def _not_offered(routes: Blueprint) -> None:
    def refuse(verb: str, **_: str) -> NoReturn:
        raise NotOffered(f":{verb} is not offered; use :predict")

    def labels(**_: str) -> NoReturn:
        raise NotOffered("version labels are not offered; name the version: /versions/<version>")

    for rule in (_MODEL, _VERSION):
        routes.post(f"{rule}:<any(classify, regress, explain):verb>")(refuse)
    routes.add_url_rule(f"{_MODEL}/labels/<label>", view_func=labels, methods=["GET"], endpoint="labels")
    routes.add_url_rule(
        f"{_MODEL}/labels/<label>:predict", view_func=labels, methods=["POST"], endpoint="labels-predict"
    )
