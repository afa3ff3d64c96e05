"""gunicorn's own answer to a message: its parser, its environ, its statuses. Our parser is not imported here."""

from __future__ import annotations

import ast
import os
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from gunicorn.config import Config
from gunicorn.http.errors import ChunkMissingTerminator, NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create
from gunicorn.workers.base import Worker

from tests.data.http.outcome import Circumstances, Outcome, comparable


class _Wire:
    """Where gunicorn writes: keeps the bytes."""

    def __init__(self):
        self.sent = b""

    def send(self, data):
        self.sent += data
        return len(data)

    sendall = send

    def gettimeout(self):
        return 0.0


def configuration(settings: dict[str, Any]) -> Config:
    """A gunicorn configuration with the Python parser."""
    cfg = Config()
    cfg.set("http_parser", "python")
    for name, value in settings.items():
        cfg.set(name, value)
    return cfg


def read_by_gunicorn(message: bytes, around: Circumstances) -> Outcome:
    """What gthread makes of a message that arrives in one piece."""
    cfg = _known_configuration(repr(around.settings))
    parser = RequestParser(cfg, iter([message]), around.peer)
    wire = _Wire()
    try:
        request = next(parser)
        with _script_name(around.script_name):
            _, environ = create(request, wire, around.peer, around.server, cfg)
    except (NoMoreData, StopIteration):
        return Outcome(status=-1)
    except Exception as fault:  # noqa: BLE001 - as gunicorn's workers do: every fault has a status
        return Outcome(status=_status(fault, cfg))
    body, body_status = _body(request, cfg)
    return Outcome(
        environ=comparable(environ),
        keep_alive=not request.should_close(),
        expect_continue=wire.sent == b"HTTP/1.1 100 Continue\r\n\r\n",
        body=body,
        body_status=body_status,
        rest=b"" if body_status else parser.unreader.take_buffered(),
    )


@cache
def _known_configuration(settings: str) -> Config:
    return configuration(ast.literal_eval(settings))


def _body(request, cfg):
    length = next((int(value) for name, value in request.headers if name == "CONTENT-LENGTH"), 0)
    try:
        body = request.body.read()
    except NoMoreData:
        return b"", -1
    except ChunkMissingTerminator as fault:
        # At the end of the input gunicorn takes what is missing for wrong.
        return b"", -1 if fault.term in (b"", b"\r") else 400
    except Exception as fault:  # noqa: BLE001 - as gunicorn's workers do: every fault has a status
        return b"", _status(fault, cfg)
    return (b"", -1) if len(body) < length else (body, 0)


def _status(fault, cfg):
    """The status that gunicorn's workers answer a fault with."""
    log = SimpleNamespace(
        warning=lambda *_: None, exception=lambda *_: None, debug=lambda *_: None, access=lambda *_: None
    )
    wire = _Wire()
    Worker.handle_error(SimpleNamespace(cfg=cfg, log=log), None, wire, ("", 0), fault)
    return int(wire.sent.split(b" ", 2)[1])


@contextmanager
def _script_name(value):
    if not value:
        yield
        return
    os.environ["SCRIPT_NAME"] = value
    try:
        yield
    finally:
        del os.environ["SCRIPT_NAME"]
