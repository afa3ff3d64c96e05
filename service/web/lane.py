"""The direct lane: inferences answered before Flask sees them.

Flask's dispatch costs more than many inferences. The two routes where that counts are found here by their path
and answered by the same functions that Flask's routes call; whatever isn't plainly one of them goes on to Flask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flask import Flask

from service.web.inference import Desk, Inference
from service.web.protocols import form_v1, form_v2

_V2, _INFER = "/v2/models/", "/infer"
_V1, _PREDICT = "/v1/models/", ":predict"


class Lane(Flask):
    """Flask with the lane before it; `open_lane` turns it on."""

    _desk: Desk | None = None

    def open_lane(self, desk: Desk) -> None:
        """Answers inferences of `desk` directly from now on."""
        self._desk = desk

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI's callable, below any middleware."""
        begin = self.pinion_lane(environ)
        if begin is not None:
            inference = begin()
            inference.start_response = start_response
            return inference
        answer: Iterable[bytes] = super().wsgi_app(environ, start_response)
        return answer

    def pinion_lane(self, environ: dict[str, Any]) -> Callable[..., Inference] | None:
        """How an inference begins; None for any other request.

        A worker that sees the same head again may call it again, with the body and the time of arrival: what is
        asked of which model depends on the head alone. The environ is never written.
        """
        desk = self._desk
        if desk is None or environ["REQUEST_METHOD"] != "POST":
            return None
        path = environ["PATH_INFO"]
        if path.endswith(_INFER) and path.startswith(_V2):
            asked, form = _asked(path[len(_V2) : -len(_INFER)]), form_v2
        elif path.endswith(_PREDICT) and path.startswith(_V1):
            asked, form = _asked(path[len(_V1) : -len(_PREDICT)]), form_v1
        else:
            return None
        return None if asked is None else partial(Inference, desk, environ, desk.target(*asked, form(environ), environ))


def _asked(middle: str) -> tuple[str, str | None] | None:
    """Model and version of the middle of a path; None where Flask has to look at it."""
    if not middle.isascii():
        try:
            middle = middle.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return None
    if "/" not in middle:
        return (middle, None) if middle else None
    name, _, rest = middle.partition("/")
    word, _, version = rest.partition("/")
    if not name or word != "versions" or not version or "/" in version:
        return None
    return name, version
