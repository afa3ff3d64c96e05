"""Who may ask which of Flask's routes; an inference asks at the gate itself, since its lane comes before Flask."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, g, request

from service.errors import Forbidden, NotOffered
from service.guard.audit import LONGEST_TEXT, Audit
from service.guard.gate import Gate, Visit
from service.host.listening import OperatorsAddress
from service.settings import Settings
from service.web.server import DeferredResponse, identity

_OPEN = frozenset(("/", "/healthz", "/readyz", "/ping", "/v2/health/live", "/v2/health/ready"))
_CHANGES = "/v2/repository/models/"
_INFERENCES = ("v2.infer", "v1.predict", "alias.predict")


class Door:
    """Asks before each request of Flask's, and notes it afterwards."""

    def __init__(self, gate: Gate | None, audit: Audit | None, settings: Settings) -> None:
        self._gate = gate
        self._audit = audit
        self._open = _OPEN | {settings.health_route or "/"}
        self._has_operators = settings.operator_bind is not None
        self._operators = OperatorsAddress(settings.operator_bind)

    def install(self, app: Flask) -> None:
        """Stands at the routes of an application from now on."""
        app.before_request(self._before)
        if self._audit is not None:
            app.after_request(self._after)

    def _before(self) -> None:
        rule = request.url_rule.rule if request.url_rule else None
        if self._gate is not None and rule not in self._open and not _asks_itself(request.endpoint):
            visit = g.visit = Visit(self._gate, request.environ)
            visit.admit(_scope_of(rule), (request.view_args or {}).get("name"))
        if rule is not None and rule.startswith(_CHANGES):
            self._require_operator()

    def _require_operator(self) -> None:
        if not self._has_operators:
            raise NotOffered(
                "loading and unloading models by request is off: it is for operators, on an address of their own; set "
                "PINION_OPERATOR_BIND, or restart or reload the service"
            )
        if not self._operators.is_at(_own_name(request.environ)):
            raise Forbidden("loading and unloading models is answered on the operators' address only")

    def _after(self, response: Response) -> Response:
        rule = request.url_rule.rule if request.url_rule else None
        if self._audit is None or rule in self._open or isinstance(response, DeferredResponse):
            return response
        visit: Visit | None = g.get("visit")
        principal = None if visit is None else visit.principal
        is_change = rule is not None and rule.startswith(_CHANGES)
        self._audit.note(
            "change" if is_change else "request",
            request_id=identity(),
            key=None if principal is None else principal.key,
            client=request.environ.get("REMOTE_ADDR", "") if visit is None else visit.client,
            method=request.method[:LONGEST_TEXT],
            path=request.path[:LONGEST_TEXT],
            model=(request.view_args or {}).get("name"),
            version=(request.view_args or {}).get("version"),
            status=response.status_code,
        )
        if is_change:
            self._audit.flush()
        return response


def admit_inference(gate: Gate | None, environ: dict[str, Any]) -> None:
    """Lets in who asks for an inference without a model, before the answer tells which there are."""
    if gate is not None:
        g.visit = Visit(gate, environ)
        g.visit.admit("infer")


def may_see(model: str) -> bool:
    """Whether the one who asks may know that there is a model of this name."""
    visit: Visit | None = g.get("visit")
    return visit is None or visit.may_see(model)


def _asks_itself(endpoint: str | None) -> bool:
    return endpoint is not None and (endpoint in _INFERENCES or endpoint.startswith("alias.predict:"))


def _scope_of(rule: str | None) -> str | None:
    """The scope that a route needs; a route that nobody thought of needs the strongest."""
    if rule is None or rule.endswith("/ready"):
        return None
    if rule == "/metrics":
        return "metrics"
    if rule.startswith(_CHANGES) or not rule.startswith(("/v1", "/v2")):
        return "admin"
    return "metadata"


def _own_name(environ: dict[str, Any]) -> Any:
    """The address at which a request came in, which no header can change."""
    if "pinion.socket" in environ:
        return environ["pinion.socket"]
    if "REMOTE_PORT" in environ:
        return environ["SERVER_NAME"], int(environ["SERVER_PORT"])
    sock = environ.get("gunicorn.socket")
    return ("", 0) if sock is None else sock.getsockname()
