"""The way of an inference: read, hand in, and, when somebody asks for the answer, run and write.

Nothing runs before the first `next()` of the answer. PEP 3333 allows it: a server must not assume that
`start_response` was called before iteration begins. A worker that gathers many requests before it asks for the
first answer lets them run together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from service.catalog.model import Model
from service.catalog.repository import Repository
from service.errors import InternalError, ServiceError
from service.guard.gate import Gate, Visit
from service.schedule.batcher import Ticket
from service.telemetry.outcome import Figures, Outcome, Timing
from service.telemetry.record import Recorder
from service.web import intake
from service.web.answer import Answer, failure, status_of
from service.web.protocols import Asked, Form

_log = logging.getLogger(__name__)

StartResponse: TypeAlias = Callable[..., Any]


class Desk:
    """Where inferences begin.

    Attributes:
        repository: of the models.
        recorder: takes note of every inference that is over.
        max_body_bytes: limit of a body, on the wire and decompressed.
        gate: lets requests in; None where all may come in.
    """

    __slots__ = ("gate", "max_body_bytes", "recorder", "repository")

    def __init__(
        self, repository: Repository, recorder: Recorder, max_body_bytes: int, gate: Gate | None = None
    ) -> None:
        self.repository = repository
        self.recorder = recorder
        self.max_body_bytes = max_body_bytes
        self.gate = gate

    def target(self, name: str, version: str | None, form: Form, environ: dict[str, Any]) -> Target:
        """What an inference with this head asks; the head is looked at by the gate once for all that repeat it."""
        return Target(name, version, form, None if self.gate is None else Visit(self.gate, environ))


class Target(NamedTuple):
    """What an inference asks.

    Attributes:
        name: of the model.
        version: None for the newest.
        form: how the request is read and the answer written.
        visit: at the gate; None where there is none.
    """

    name: str
    version: str | None
    form: Form
    visit: Visit | None


class Inference:
    """One inference on its way, and the WSGI answer to it.

    It is read when it is made; its first `next()` runs the model if nobody has, calls `start_response` and gives
    the body. An error waits until then, too.
    """

    __slots__ = (
        "_asked",
        "_desk",
        "_environ",
        "_error",
        "_form",
        "_is_over",
        "_model",
        "_read_ns",
        "_started_ns",
        "_ticket",
        "_visit",
        "delayed",
        "identity",
        "start_response",
    )

    def __init__(
        self,
        desk: Desk,
        environ: dict[str, Any],
        target: Target,
        body: bytes | bytearray | None = None,
        arrival_ns: int = 0,
    ) -> None:
        """Reads the request and takes a place in the model's queue.

        Args:
            desk: where it begins.
            environ: of the request.
            target: what is asked, and how.
            body: as it came, where it has been received already; else it is read from the environ.
            arrival_ns: performance counter at which the request was there; 0 for now.
        """
        self._desk = desk
        self._environ = environ
        name, version, form, visit = target
        self._form = form
        self._visit = visit
        self._started_ns = arrival_ns or environ.get("pinion.arrival_ns") or time.perf_counter_ns()
        self.identity = intake.request_id(environ)
        self.start_response: StartResponse | None = None
        self._is_over = False
        self._error: ServiceError | None = None
        self._model: Model | None = None
        self._ticket: Ticket | None = None
        self._asked: Asked | None = None
        self.delayed = False
        try:
            if visit is not None:
                visit.admit("infer", name)
            model = self._model = desk.repository.get(name, version)
            if body is None:
                body = intake.read_body(environ, desk.max_body_bytes)
            elif "HTTP_CONTENT_ENCODING" in environ:
                body = intake.decompressed(body, environ, desk.max_body_bytes)
            asked = self._asked = form.read(body, environ, model)
            self._ticket = model.submit(asked.feeds, asked.outputs)
            self.delayed = model.delay_ns > 0
        except ServiceError as error:
            self._error = error
        except Exception as fault:  # noqa: BLE001 - logged with its traceback, told to the caller as a 500
            self._error = self._internal(fault)
        self._read_ns = time.perf_counter_ns()

    @property
    def is_settled(self) -> bool:
        """Whether the answer needs no run any more: another one's run gave it, or there is an error to tell."""
        return self._ticket is None or self._ticket.ended_ns > 0

    @property
    def may_wait(self) -> bool:
        """Whether it should not be finished yet, since others may join its run."""
        model, ticket = self._model, self._ticket
        return self.delayed and model is not None and ticket is not None and model.patience_ns(ticket) > 0

    def __iter__(self) -> Inference:
        return self

    def __next__(self) -> bytes:
        if self._is_over or self.start_response is None:
            raise StopIteration
        status_line, headers, parts = self.finish()
        self.start_response(status_line, headers)
        return b"".join(parts)

    def close(self) -> None:
        """The end of the answer; of one that nobody asked for, the place in the queue is given up."""
        self.withdraw()

    def withdraw(self) -> bool:
        """Gives up the place in the queue; False if there is nothing to give up: it has run, runs, or has failed."""
        if self._is_over or self._model is None or self._ticket is None:
            return False
        return self._model.withdraw(self._ticket)

    def finish(self) -> Answer:
        """Runs the model if nobody has, and writes the answer; never raises."""
        self._is_over = True
        if self._error is None:
            try:
                answer = self._written()
            except ServiceError as error:
                self._error = error
                if error.status >= 500:  # noqa: PLR2004 - a server's fault, not the caller's
                    _log.error("request %s: %s", self.identity, error, exc_info=error)
            except Exception as fault:  # noqa: BLE001 - as above
                self._error = self._internal(fault)
            else:
                self._record(answer)
                return answer
        answer = failure(self._error, self.identity)
        self._record(answer)
        return answer

    def _written(self) -> Answer:
        model, ticket = self._model, self._ticket
        if model is None or ticket is None:
            raise RuntimeError("an inference without an error has a ticket")
        return self._form.write(self._asked, ticket, self._environ, model, self.identity)

    def _internal(self, fault: Exception) -> InternalError:
        _log.exception("request %s: internal error", self.identity, exc_info=fault)
        return InternalError("internal error; the log has the reason under this request's id")

    def _figures(self) -> Figures:
        ended_ns = time.perf_counter_ns()
        started_ns = self._started_ns
        ticket = self._ticket
        if ticket is None or not ticket.ended_ns:
            return (0, 0, False, self._read_ns - started_ns, 0, 0, 0, ended_ns - started_ns)
        run_ended_ns = ticket.ended_ns
        return (
            ticket.rows,
            ticket.batch_rows,
            ticket.leads,
            self._read_ns - started_ns,
            ticket.started_ns - ticket.submitted_ns,
            run_ended_ns - ticket.started_ns,
            ended_ns - run_ended_ns,
            ended_ns - started_ns,
        )

    def _record(self, answer: Answer) -> None:
        recorder, model, error = self._desk.recorder, self._model, self._error
        figures = self._figures()
        if error is None and model is not None and not recorder.keeps_lines:
            recorder.succeed(model.key, figures)
            return
        timing = Timing(*figures)
        environ, visit = self._environ, self._visit
        principal = None if visit is None else visit.principal
        recorder.record(
            Outcome(
                model=None if model is None else model.name,
                version=None if model is None else model.version,
                request_id=self.identity,
                method=environ.get("REQUEST_METHOD", ""),
                path=environ.get("PATH_INFO", ""),
                client=environ.get("REMOTE_ADDR", "") if visit is None else visit.client,
                status=status_of(answer),
                error=None if error is None else error.slug,
                executed=timing.run_ns > 0,
                timing=timing,
                bytes_in=intake.content_length(environ) or 0,
                bytes_out=sum(map(len, answer[2])),
                key=None if principal is None else principal.key,
            )
        )
