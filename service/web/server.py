"""The Flask application: one class, every route, every error as JSON."""

from __future__ import annotations

import logging
from typing import Any

from flask import Response, g, request
from werkzeug.exceptions import HTTPException

from service.errors import (
    BodyTooLarge,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    ServiceError,
    UnknownRoute,
)
from service.web import intake
from service.web.answer import failure
from service.web.inference import Inference
from service.web.lane import Lane

_log = logging.getLogger(__name__)


class DeferredResponse(Response):
    """A Flask response whose body runs the model on its first `next()`."""

    default_mimetype = None

    def __init__(self, inference: Inference) -> None:
        super().__init__()
        self._inference = inference

    def __call__(self, environ: Any, start_response: Any) -> Any:  # noqa: ARG002 - WSGI's signature
        """The WSGI answer; `start_response` is called when it is iterated."""
        self._inference.start_response = start_response
        return self._inference


def create_flask() -> Lane:
    """A Flask application without routes: ids, JSON errors, no redirects."""
    app = Lane("service", static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined] # the default provider has it
    app.before_request(_identify)
    app.after_request(_sign)
    app.register_error_handler(ServiceError, _service_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)
    return app


def identity() -> str:
    """The id of the request in hand."""
    found: str | None = g.get("identity")
    if found is None:
        found = g.identity = intake.request_id(request.environ)
    return found


def _identify() -> None:
    identity()


def _sign(response: Response) -> Response:
    if not isinstance(response, DeferredResponse):
        response.headers.setdefault("X-Request-Id", identity())
    return response


def _service_error(error: ServiceError) -> Response:
    answer = failure(error, identity())
    status_line, headers, parts = answer
    return Response(b"".join(parts), status_line, headers)


def _http_error(error: HTTPException) -> Response:
    return _service_error(_translated(error))


def _translated(error: HTTPException) -> ServiceError:
    """Werkzeug's errors in our words."""
    method, path = request.method, request.path
    if error.code == UnknownRoute.status:
        return UnknownRoute(f"there is no route {method} {path[:200]}; GET /v2 says what is served", received=path)
    if error.code == MethodNotAllowed.status:
        allowed = sorted(getattr(error, "valid_methods", None) or ())
        return MethodNotAllowed(
            f"{path[:200]} takes {', '.join(allowed)}, not {method}",
            expected=allowed,
            received=method,
            headers=(("Allow", ", ".join(allowed)),),
        )
    if error.code == BodyTooLarge.status:
        return BodyTooLarge("the body is too large")
    return InvalidRequest(f"the request can't be read: {error.description}")


def _unexpected(fault: Exception) -> Response:
    _log.exception("request %s: internal error", identity(), exc_info=fault)
    return _service_error(InternalError("internal error; the log has the reason under this request's id"))
