"""The forms in which an inference can be asked, each a way to read its request and to write its answer."""

from __future__ import annotations

from typing import Any, Protocol

from service.catalog.model import Model
from service.errors import InvalidRequest, UnsupportedMedia
from service.schedule.batcher import Ticket
from service.tensors import Array
from service.web.answer import Answer, success, success_with_tensors
from service.wire import csv_text, image_tensors, v1, v1_answer, v2, v2_answer
from service.wire.v2_plain import PlainRequest

_JSON_SIZE = "HTTP_INFERENCE_HEADER_CONTENT_LENGTH"
_CSV = "text/csv"


class Asked(Protocol):
    """A request that fits its model: arrays by input name, and the outputs to compute."""

    @property
    def feeds(self) -> dict[str, Array]:
        """Array by input name."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs to compute."""


class Form(Protocol):
    """One way to ask."""

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:
        """The request; raises InvalidRequest where it doesn't fit the model."""

    def write(self, asked: Any, ticket: Ticket, environ: dict[str, Any], model: Model, identity: str) -> Answer:
        """The answer, with what the ticket's run gave; it runs now if it hasn't.

        Raises:
            ServiceError: what went wrong in the run, or can't be written as it was asked for.
        """


class OpenInference:
    """Open Inference Protocol v2, JSON and binary."""

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:
        """Reads the document."""
        return v2.read_request(body, environ.get(_JSON_SIZE), model.signature)

    def write(
        self, asked: v2.V2Request | PlainRequest, ticket: Ticket, environ: dict[str, Any], model: Model, identity: str
    ) -> Answer:
        """Writes the document, and bytes behind it."""
        if asked.__class__ is PlainRequest and model.plain_writer is not None:
            text = model.plain_writer.write(model.arrays(ticket))
            if text is not None:
                return success(text, environ, identity)
        text, tensors = v2_answer.write_answer(model.name, model.version, asked, model.finish(ticket), model.signature)
        if tensors is None:
            return success(text, environ, identity)
        return success_with_tensors(text, tensors, environ, identity)


class Rows:
    """TensorFlow Serving's rows and columns."""

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:  # noqa: ARG002 - the protocol's
        """Reads the document."""
        return v1.read_request(body, model.signature)

    def write(
        self,
        asked: v1.V1Request,
        ticket: Ticket,
        environ: dict[str, Any],
        model: Model,
        identity: str,
    ) -> Answer:
        """Writes rows for rows and columns for columns."""
        return success(v1_answer.write_answer(asked, model.finish(ticket)), environ, identity)


class Csv:
    """Numbers with commas, one row a line, for a model with one numeric input."""

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:  # noqa: ARG002 - the protocol's
        """Reads the lines."""
        signature = model.signature
        if len(signature.required) != 1:
            raise InvalidRequest(
                f"text/csv needs a model with one input, '{model.name}' has {len(signature.required)}; send JSON"
            )
        spec = signature.input(signature.required[0], "")
        signature.check_served(signature.output_names)
        array = csv_text.read_csv(bytes(body), spec)
        return v1.V1Request({spec.name: array}, signature.output_names, len(array))

    def write(
        self, asked: v1.V1Request, ticket: Ticket, environ: dict[str, Any], model: Model, identity: str
    ) -> Answer:
        """CSV, unless the caller accepts JSON only."""
        if _prefers_json(environ.get("HTTP_ACCEPT", "")):
            return ROWS.write(asked, ticket, environ, model, identity)
        body = csv_text.write_csv(model.finish(ticket))
        return success(body, environ, identity, "text/csv; charset=utf-8")


class Image:
    """JPEG or PNG bytes as the whole body, for a model with one input that takes images."""

    def __init__(self, *, rows: bool) -> None:
        self._rows = rows

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:
        """Reads the image."""
        signature = model.signature
        name = signature.required[0] if len(signature.required) == 1 else ""
        if name not in signature.images:
            raise UnsupportedMedia(
                f"model '{model.name}' doesn't take {environ.get('CONTENT_TYPE', '')[:40]}: it needs exactly one "
                "input, declared as an image in its model.toml"
            )
        signature.check_served(signature.output_names)
        spec = signature.input_by_name[name]
        feeds = {name: image_tensors.read([bytes(body)], signature.images[name], spec)}
        if not self._rows:
            return v2.V2Request(None, feeds, signature.output_names, None, "null", {})
        rows = 1 if signature.images[name].layout.startswith("N") else None
        return v1.V1Request(feeds, signature.output_names, rows)

    def write(self, asked: Any, ticket: Ticket, environ: dict[str, Any], model: Model, identity: str) -> Answer:
        """As JSON of the route's protocol."""
        return (ROWS if self._rows else OPEN_INFERENCE).write(asked, ticket, environ, model, identity)


class Multipart:
    """Parts of a form, which no model takes."""

    def read(self, body: bytes | bytearray, environ: dict[str, Any], model: Model) -> Asked:  # noqa: ARG002 - the protocol's
        """Refuses it."""
        raise UnsupportedMedia(
            "multipart bodies can't be read here; send the JSON, or the bytes with their own type, as the body",
            received=environ["CONTENT_TYPE"][:80],
        )

    def write(self, asked: Any, ticket: Ticket, environ: dict[str, Any], model: Model, identity: str) -> Answer:
        """Never asked for, since nothing was read."""
        return OPEN_INFERENCE.write(asked, ticket, environ, model, identity)


OPEN_INFERENCE: Form = OpenInference()
ROWS: Form = Rows()
CSV: Form = Csv()
IMAGE_V2: Form = Image(rows=False)
IMAGE_V1: Form = Image(rows=True)
MULTIPART: Form = Multipart()


_MOST_TYPES = 256
_forms: dict[str, tuple[Form, Form]] = {"": (OPEN_INFERENCE, ROWS), "application/json": (OPEN_INFERENCE, ROWS)}
"""How a body of a content type is read on a v2 and on a v1 route; grows by what clients really send."""


def form_v2(environ: dict[str, Any]) -> Form:
    """How a body on a v2 route is read: an image by its type, anything else as the protocol says."""
    return _by_type(environ.get("CONTENT_TYPE", ""))[0]


def form_v1(environ: dict[str, Any]) -> Form:
    """How a body on a v1 route is read: CSV or an image by its type, anything else as JSON."""
    return _by_type(environ.get("CONTENT_TYPE", ""))[1]


def _by_type(content_type: str) -> tuple[Form, Form]:
    forms = _forms.get(content_type)
    if forms is None:
        kind = content_type.lower().partition(";")[0].strip()
        if kind.startswith("image/"):
            forms = (IMAGE_V2, IMAGE_V1)
        elif kind.startswith("multipart/"):
            forms = (MULTIPART, MULTIPART)
        else:
            forms = (OPEN_INFERENCE, CSV if kind == _CSV else ROWS)
        if len(_forms) < _MOST_TYPES:
            _forms[content_type] = forms
    return forms


def _prefers_json(accept: str) -> bool:
    return "json" in accept and _CSV not in accept
