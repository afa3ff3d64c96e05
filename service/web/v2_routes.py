"""Routes of the Open Inference Protocol v2."""

from __future__ import annotations

from typing import Any, NoReturn

from flask import Blueprint, Response, jsonify, request

from service import __version__
from service.catalog.model import Model
from service.catalog.repository import Repository
from service.errors import NotOffered
from service.telemetry.statistics import model_stats
from service.tensors import TensorSpec
from service.web import door, intake
from service.web.inference import Desk, Inference
from service.web.protocols import form_v2
from service.web.server import DeferredResponse
from service.wire.json_text import read_json
from service.wire.triton import model_configuration

EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "statistics",
)
"""Names of the protocol's extensions that work here."""

_MODEL = "/models/<name>"
_VERSION = "/models/<name>/versions/<version>"


def v2_routes(desk: Desk, draining: Any) -> Blueprint:
    """All routes under `/v2`.

    Args:
        desk: where inferences begin.
        draining: says whether this process is being stopped.
    """
    routes = Blueprint("v2", __name__, url_prefix="/v2")
    _health(routes, desk.repository, draining)
    _metadata(routes, desk.repository)
    _repository(routes, desk)
    _not_offered(routes)

    def infer(name: str, version: str | None = None) -> Response:
        environ = request.environ
        return DeferredResponse(Inference(desk, environ, desk.target(name, version, form_v2(environ), environ)))

    routes.post(f"{_MODEL}/infer")(infer)
    routes.post(f"{_VERSION}/infer")(infer)
    return routes


def _health(routes: Blueprint, repository: Repository, draining: Any) -> None:
    @routes.get("/health/live")
    def live() -> Response:
        return jsonify(live=True)

    @routes.get("/health/ready")
    def ready() -> tuple[Response, int]:
        return readiness(repository, draining=draining())

    def model_ready(name: str, version: str | None = None) -> tuple[Response, int]:
        known = repository.versions(name)
        if not known or (version is not None and version not in known):
            repository.get(name, version)
        return model_readiness(repository, name, version)

    routes.get(f"{_MODEL}/ready")(model_ready)
    routes.get(f"{_VERSION}/ready")(model_ready)


def readiness(repository: Repository, *, draining: bool) -> tuple[Response, int]:
    """The answer of server readiness, the reasons beside it where it isn't ready."""
    reasons = ["the service is stopping"] if draining else repository.missing()
    if not reasons:
        return jsonify(ready=True), 200
    return jsonify(ready=False, error="not ready: " + "; ".join(reasons), reasons=reasons), 503


def model_readiness(repository: Repository, name: str, version: str | None) -> tuple[Response, int]:
    """The answer of a known model's readiness."""
    rows = [row for row in repository.index() if row.name == name and version in (None, row.version)]
    if any(row.state == "READY" for row in rows):
        return jsonify(name=name, ready=True), 200
    reason = rows[-1].reason or rows[-1].state
    return jsonify(name=name, ready=False, error=f"model '{name}' is not ready: {reason}"), 503


def _metadata(routes: Blueprint, repository: Repository) -> None:
    @routes.get("", strict_slashes=False)
    def server() -> Response:
        return jsonify(name="pinion", version=__version__, extensions=list(EXTENSIONS))

    def model(name: str, version: str | None = None) -> Response:
        found = repository.get(name, version)
        return jsonify(model_metadata(found, repository.versions(name)))

    def config(name: str, version: str | None = None) -> Response:
        found = repository.get(name, version)
        return jsonify(model_configuration(found.name, found.signature, found.max_batch_size, found.triton))

    routes.get(_MODEL)(model)
    routes.get(_VERSION)(model)
    routes.get(f"{_MODEL}/config")(config)
    routes.get(f"{_VERSION}/config")(config)


def model_metadata(model: Model, versions: list[str]) -> dict[str, Any]:
    """Metadata of a model version; dimensions without a fixed length are -1."""
    return {
        "name": model.name,
        "versions": versions,
        "platform": "onnx_onnxv1",
        "inputs": [_tensor(spec) for spec in model.signature.inputs],
        "outputs": [_tensor(spec) for spec in model.signature.outputs],
        "properties": {
            "execution_providers": ",".join(model.providers),
            "nodes_by_provider": ",".join(f"{name}:{count}" for name, count in model.nodes.items()),
            "intra_op_threads": str(model.threads),
            "version": model.version,
            "batching": model.curve.reason,
            "batch_curve_us_per_row": ",".join(f"{rows}:{us:.1f}" for rows, us in model.curve.rows_us),
            "batch_deviation": f"{model.curve.deviation:.1e}",
            **({"padding": model.curve.padding_reason} if model.curve.padding_reason else {}),
            "notes": "; ".join(model.notes),
        },
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    datatype = "FP32" if spec.class_map else spec.datatype.name if spec.datatype else spec.onnx_type
    shape: tuple[Any, ...] | None = (None, None) if spec.class_map else spec.shape
    entry: dict[str, Any] = {
        "name": spec.name,
        "datatype": datatype,
        "shape": [dim if isinstance(dim, int) else -1 for dim in shape or ()],
    }
    if shape is None:
        entry["parameters"] = {"unknown_rank": True}
    if spec.optional:
        entry["parameters"] = {**entry.get("parameters", {}), "optional": True}
    return entry


def _repository(routes: Blueprint, desk: Desk) -> None:
    repository = desk.repository

    @routes.post("/repository/index")
    def index() -> Response:
        body = intake.read_body(request.environ, desk.max_body_bytes)
        only_ready = bool(body.strip()) and _asks_for_ready(read_json(body))
        rows = [
            {"name": row.name, "version": row.version, "state": row.state, "reason": row.reason}
            for row in repository.index()
            if door.may_see(row.name)
        ]
        return jsonify([row for row in rows if not only_ready or row["state"] == "READY"])

    @routes.get("/models/stats")
    def all_stats() -> Response:
        models = [model for model in repository.models() if door.may_see(model.name)]
        return jsonify(model_stats=model_stats([(model.name, model.version) for model in models]))

    def stats(name: str, version: str | None = None) -> Response:
        repository.get(name, version)
        wanted = [
            (model.name, model.version)
            for model in repository.models()
            if model.name == name and version in (None, model.version)
        ]
        return jsonify(model_stats=model_stats(wanted))

    routes.get(f"{_MODEL}/stats")(stats)
    routes.get(f"{_VERSION}/stats")(stats)


def _asks_for_ready(document: Any) -> bool:
    return isinstance(document, dict) and document.get("ready") is True


def _not_offered(routes: Blueprint) -> None:
    def offer(rule: str, methods: list[str], sentence: str) -> None:
        def refuse(**_: str) -> NoReturn:
            raise NotOffered(sentence)

        routes.add_url_rule(rule, endpoint=f"not-offered:{rule}", view_func=refuse, methods=methods)

    change = "loading and unloading models by request is not offered yet; restart or reload the service"
    offer("/repository/models/<name>/load", ["POST"], change)
    offer("/repository/models/<name>/unload", ["POST"], change)
    offer("/repository/<path:rest>", ["POST"], "named repositories are not offered; use /v2/repository/index")
    trace = "the trace extension is not offered; /metrics and the log have the figures"
    offer("/trace/setting", ["GET", "POST"], trace)
    offer(f"{_MODEL}/trace/setting", ["GET", "POST"], trace)
    offer("/logging", ["GET", "POST"], "the logging extension is not offered; set PINION_LOG_LEVEL")
    memory = "shared memory is not offered; send tensors in the body, as JSON or binary"
    for kind in ("systemsharedmemory", "cudasharedmemory"):
        offer(f"/{kind}/<path:rest>", ["GET", "POST"], memory)
    generate = "the generate extension is not offered; POST …/infer answers with whole tensors"
    for route in ("generate", "generate_stream"):
        offer(f"{_MODEL}/{route}", ["POST"], generate)
        offer(f"{_VERSION}/{route}", ["POST"], generate)
