"""Everything a caller or an operator can be told, as one tree.

    PinionError
    +-- ConfigurationError          settings, model.toml: told at start, all problems at once
    +-- ModelLoadError              a model that can't serve: a state with its reason, never a crash
    +-- ServiceError                an HTTP answer
        +-- InvalidRequest     400  +-- MalformedBody, UnknownTensor, MissingTensor, ShapeMismatch,
        |                               DatatypeMismatch, InvalidValue, SizeMismatch, RefusedByModel
        +-- Unauthorized       401
        +-- Forbidden          403
        +-- NotFound           404  +-- UnknownModel, UnknownVersion, UnknownRoute
        +-- MethodNotAllowed   405
        +-- ClientStalled      408
        +-- BodyTooLarge       413
        +-- UnsupportedMedia   415
        +-- TooManyRequests    429
        +-- RunFailed          500
        +-- InternalError      500
        +-- NotOffered         501
        +-- NotReady           503
        +-- DeadlinePassed     504

The body of an answer is `{"error": <sentence>}` (Open Inference Protocol) with the members of RFC 9457 beside
it; `docs/` and the pages under `/problems/` are written from these docstrings.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PinionError(Exception):
    """Root of the tree; never raised itself."""


_LONGEST_TOLD, _MOST_TOLD = 2000, 256


class ConfigurationError(PinionError):
    """The configuration can't be used.

    Attributes:
        problems: one sentence each; every problem that was found, not only the first.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ModelLoadError(PinionError):
    """A model can't be served; the message is the reason shown in the repository index."""


class ServiceError(PinionError):
    """An answer that isn't a success.

    Attributes:
        status: the HTTP status.
        title: constant text of the kind (RFC 9457).
        slug: last part of the kind's address, `/problems/<slug>`.
        pointer: JSON pointer to the place in the request body, where there is one.
        expected: what would have been right.
        received: what came.
        headers: response headers that belong to the answer.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Error"
    slug: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        pointer: str | None = None,
        expected: Any = None,
        received: Any = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.pointer = pointer
        self.expected = expected
        self.received = received
        self.headers = headers

    def body(self, request_id: str) -> dict[str, Any]:
        """The members of the JSON answer."""
        members = {
            "error": _cut(str(self)),
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "instance": f"urn:request:{request_id}",
        }
        for name in ("pointer", "expected", "received"):
            if (value := getattr(self, name)) is not None:
                members[name] = _cut(value)
        return members


def _cut(value: Any) -> Any:
    """What a caller sent is told back in part only: an answer must not be as large as its request made it."""
    if isinstance(value, str) and len(value) > _LONGEST_TOLD:
        return f"{value[:_LONGEST_TOLD]}…"
    if isinstance(value, list) and len(value) > _MOST_TOLD:
        return [*value[:_MOST_TOLD], "…"]
    return value


class InvalidRequest(ServiceError):
    """The request can't be understood or doesn't fit the model; sending it again changes nothing."""

    status = 400
    title = "Invalid request"
    slug = "invalid-request"


class MalformedBody(InvalidRequest):
    """The body isn't what its headers or the route say: broken JSON, a cut stream, wrong binary framing."""

    title = "Malformed body"
    slug = "malformed-body"


class UnknownTensor(InvalidRequest):
    """The request names an input or output that the model doesn't have."""

    title = "Unknown tensor"
    slug = "unknown-tensor"


class MissingTensor(InvalidRequest):
    """An input that the model needs isn't in the request."""

    title = "Missing tensor"
    slug = "missing-tensor"


class ShapeMismatch(InvalidRequest):
    """A tensor's shape doesn't fit the model, or its data doesn't fit its shape."""

    title = "Shape does not fit"
    slug = "shape-mismatch"


class DatatypeMismatch(InvalidRequest):
    """A tensor's datatype isn't the one that the model takes."""

    title = "Datatype does not fit"
    slug = "datatype-mismatch"


class InvalidValue(InvalidRequest):
    """An element can't be represented in the tensor's datatype."""

    title = "Value does not fit"
    slug = "invalid-value"


class SizeMismatch(InvalidRequest):
    """A number of bytes doesn't fit the shape, or the parts of a binary body don't add up."""

    title = "Size does not fit"
    slug = "size-mismatch"


class RefusedByModel(InvalidRequest):
    """The model itself refused the values, for example an index out of range."""

    title = "Refused by the model"
    slug = "refused-by-model"


class Unauthorized(ServiceError):
    """The request has no API key, or one that isn't valid; `WWW-Authenticate` says how to send one."""

    status = 401
    title = "Unauthorized"
    slug = "unauthorized"


class Forbidden(ServiceError):
    """The key, the address or the listener that a request came by isn't good for what it asks."""

    status = 403
    title = "Forbidden"
    slug = "forbidden"


class NotFound(ServiceError):
    """There is nothing under this address."""

    status = 404
    title = "Not found"
    slug = "not-found"


class UnknownRoute(NotFound):
    """The service has no such route."""

    title = "Unknown route"
    slug = "unknown-route"


class UnknownModel(NotFound):
    """The repository has no model of this name."""

    title = "Unknown model"
    slug = "unknown-model"


class UnknownVersion(NotFound):
    """The model is there, this version of it isn't."""

    title = "Unknown version"
    slug = "unknown-version"


class MethodNotAllowed(ServiceError):
    """The route is there, but not with this method; `Allow` lists those it takes."""

    status = 405
    title = "Method not allowed"
    slug = "method-not-allowed"


class ClientStalled(ServiceError):
    """The client stopped in the middle of its request."""

    status = 408
    title = "Request timeout"
    slug = "client-stalled"


class BodyTooLarge(ServiceError):
    """The body, on the wire or decompressed, is over the limit."""

    status = 413
    title = "Body too large"
    slug = "body-too-large"


class UnsupportedMedia(ServiceError):
    """The body's content type or encoding can't be read here."""

    status = 415
    title = "Unsupported media type"
    slug = "unsupported-media"


class TooManyRequests(ServiceError):
    """The key or the address asks more often than it may; `Retry-After` says when to ask again."""

    status = 429
    title = "Too many requests"
    slug = "too-many-requests"


class RunFailed(ServiceError):
    """The model failed while it ran; the log has the reason under the request's id."""

    status = 500
    title = "The model failed"
    slug = "run-failed"


class InternalError(ServiceError):
    """A fault of the service itself; the log has the traceback under the request's id."""

    status = 500
    title = "Internal error"
    slug = "internal-error"


class NotOffered(ServiceError):
    """A part of the protocol, or a type of tensor, that this service doesn't offer."""

    status = 501
    title = "Not offered"
    slug = "not-offered"


class NotReady(ServiceError):
    """The model or the service can't answer now; `Retry-After` says when to ask again."""

    status = 503
    title = "Not ready"
    slug = "not-ready"


class DeadlinePassed(ServiceError):
    """The answer could not be given before the request's deadline."""

    status = 504
    title = "Deadline passed"
    slug = "deadline-passed"
