"""Our answer to a message, put together as the loop does it."""

from __future__ import annotations

import os

from service.prefork.chunks import ChunkedBody
from service.prefork.head import HeadParser
from service.prefork.refusals import Refusal
from tests.data.http.outcome import Circumstances, Outcome, comparable
from tests.data.http.reference import configuration

_LIMIT_BYTES = 1 << 62


class SocketName:
    """A listener, as far as the parser looks at it."""

    def __init__(self, name) -> None:
        self.name = name


class Ours:
    """One parser for many messages under the same circumstances, as a worker has it."""

    def __init__(self, around: Circumstances) -> None:
        self._around = around
        if around.script_name:
            os.environ["SCRIPT_NAME"] = around.script_name
        try:
            self._parser = HeadParser(configuration(around.settings))
        finally:
            os.environ.pop("SCRIPT_NAME", None)
        self._listener = SocketName(around.server)

    def read(self, message: bytes) -> Outcome:
        """What our parser makes of a message that arrives in one piece."""
        end = message.find(b"\r\n\r\n")
        try:
            if end < 0:
                self._parser.check_partial(message)
                return Outcome(status=-1)
            head = self._parser.parse(message, end + 4, self._around.peer, self._listener)
        except Refusal as refusal:
            return Outcome(status=refusal.status)
        body, body_status, rest = _body(head, message[end + 4 :])
        return Outcome(
            environ=comparable(head.environ),
            keep_alive=head.keep_alive,
            expect_continue=head.expect_continue,
            body=body,
            body_status=body_status,
            rest=rest,
        )


def _body(head, data):
    if not head.chunked:
        length = head.body_length or 0
        return (b"", -1, b"") if len(data) < length else (data[:length], 0, data[length:])
    chunked = ChunkedBody(_LIMIT_BYTES)
    try:
        whole = chunked.feed(data)
    except Refusal as refusal:
        return b"", refusal.status, b""
    return (bytes(chunked.body), 0, chunked.rest) if whole else (b"", -1, b"")
