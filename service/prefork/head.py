"""The head of a request becomes a WSGI environ, as gunicorn's own parser would make it.

llhttp (through httptools) checks the field lines of every head that hasn't been seen; what they mean follows
gunicorn's rules. A head that equals an earlier one byte for byte means the same, so its environ is a copy.
"""

from __future__ import annotations

from typing import Any

import httptools

from service.prefork.fields import CODING, SCRIPT_NAME, Fields, split_lines
from service.prefork.framing import HTTP_1_1, Head, copied, frame
from service.prefork.head_policy import HeadPolicy
from service.prefork.memory import Memory
from service.prefork.origin import Listener, Origin, Origins, host_environ
from service.prefork.refusals import Refusal
from service.prefork.request_line import RequestLine, check_line_bytes, path_info, shown

_MOST_REQUEST_LINES = 256
_LONGEST_REQUEST_LINE_BYTES = 512
_ANY_REQUEST_LINE = b"POST / HTTP/1.1\r\n"
_SCHEME = "scheme"
_SINGLE_FIELDS = {"HTTP_HOST": "Host", "CONTENT_TYPE": "Content-Type"}
_BARE_LF = "a line of the head ends with a bare LF: end every line with CRLF (RFC 9112 section 2.2)"


class _NoOne:
    """Whom llhttp reports to: only its verdict counts."""


class HeadParser:
    """Reads heads under one configuration of gunicorn; for one thread."""

    def __init__(self, cfg: Any) -> None:
        """Resolves the settings.

        Args:
            cfg: a `gunicorn.config.Config`.

        Raises:
            ConfigurationError: a setting that this parser doesn't offer.
        """
        self._policy = HeadPolicy.of(cfg)
        self._origins = Origins(self._policy)
        self._lines: Memory[RequestLine] = Memory(_MOST_REQUEST_LINES, _LONGEST_REQUEST_LINE_BYTES)
        self._no_one = _NoOne()

    def parse(self, data: bytes | bytearray | memoryview, end: int, peer: Any, listener: Listener) -> Head:
        """Reads a whole head.

        Args:
            data: what the client sent, from the start of the request.
            end: where its first empty line ends.
            peer: the client's address, as `accept` gave it.
            listener: the socket that accepted it.

        Raises:
            Refusal: 400, 414, 417, 431, 501; 500 when the path isn't under `SCRIPT_NAME`.
        """
        origin = self._origins[peer, listener]
        text = data[:end]
        if not isinstance(text, bytes):
            text = bytes(text)
        known = origin.heads.get(text)
        if known is None:
            head = self._read(text, origin)
            if origin.heads.is_worth(text):
                origin.heads.keep(text, copied(head))
        else:
            head = copied(known)
        head.environ.update(origin.environ)
        return head

    def check_partial(self, data: bytes | bytearray, scanned: int = 0) -> None:
        """Looks at a head that isn't complete, so that what can't become one isn't waited for.

        Args:
            data: what has come, from the start of the request.
            scanned: how much of it earlier calls have seen.

        Raises:
            Refusal: 400, 414, 431.
        """
        start = 2 if data[:2] == b"\r\n" else 0
        line_end = data.find(b"\r\n", start)
        if line_end < 0:
            if data.find(b"\n", start) >= 0:
                raise Refusal(400, _BARE_LF)
            check_line_bytes(len(data) - start - 2, self._policy)
            return
        self._request_line(bytes(data[start:line_end]))
        fresh = max(line_end, scanned - 1)
        if data[fresh : fresh + 1] == b"\n":  # its CR is before it
            fresh -= 1
        if data.count(b"\n", fresh) != data.count(b"\r\n", fresh):
            raise Refusal(400, _BARE_LF)
        limit = self._policy.limit_head_bytes
        if len(data) - line_end - 2 > limit:
            raise Refusal(431, f"the header fields are larger than {limit} bytes together: send fewer of them")

    def _read(self, text: bytes, origin: Origin) -> Head:
        """Reads a head that isn't known; its environ lacks the addresses."""
        start = 2 if text.startswith(b"\r\n") else 0
        line_end = text.find(b"\r\n", start)
        line = self._request_line(text[start:line_end])
        environ = line.environ.copy()
        block = text[line_end + 2 : -4]
        effects = self._collect(split_lines(block, self._policy), environ, origin.fields)
        head = frame(environ, line.version, effects.get(CODING))
        if self._policy.is_strict:
            self._check_by_llhttp(block)
        self._complete(head, line, effects, origin)
        return head

    def _request_line(self, text: bytes) -> RequestLine:
        line = self._lines.get(text)
        if line is None:
            line = RequestLine(text, self._policy)
            if self._lines.is_worth(text):
                self._lines.keep(text, line)
        return line

    def _collect(self, lines: list[bytes], environ: dict[str, Any], fields: Fields) -> dict[str, str]:
        """Puts the fields into an environ; returns what some of them do besides."""
        effects: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        room = self._policy.limit_request_fields
        for line in lines:
            if not room:
                limit = self._policy.limit_request_fields
                raise Refusal(431, f"there are more than {limit} header fields (limit_request_fields): send fewer")
            key, value, effect = fields[line]
            if effect is not None:
                _note(effect, value, effects)
            if key is None:
                continue
            room -= 1
            if key not in environ:
                environ[key] = value
            elif key in _SINGLE_FIELDS:
                raise Refusal(400, f"expected one {_SINGLE_FIELDS[key]} field, got a second one, {shown(value)}")
            else:
                repeated.setdefault(key, [environ[key]]).append(value)
        for key, values in repeated.items():
            environ[key] = ",".join(values)
        return effects

    def _check_by_llhttp(self, block: bytes) -> None:
        """A second opinion on the field lines and what they say of the body, by the parser of Node.js.

        It doesn't take a tab for white space after `chunked`, which RFC 9110 section 5.5 allows.
        """
        end = b"\r\n\r\n" if block else b"\r\n"
        try:
            httptools.HttpRequestParser(self._no_one).feed_data(_ANY_REQUEST_LINE + block.replace(b"\t", b" ") + end)
        except httptools.HttpParserUpgrade:
            return
        except httptools.HttpParserError as fault:
            raise Refusal(400, f"the header fields can't be read: {fault}") from None

    def _complete(self, head: Head, line: RequestLine, effects: dict[str, str], origin: Origin) -> None:
        """Settles what depends on the whole head: scheme, paths, server name."""
        environ = head.environ
        scheme = effects.get(_SCHEME)
        if scheme is not None:
            environ["wsgi.url_scheme"] = scheme
        script_name = effects.get(SCRIPT_NAME, self._policy.script_name)
        if not line.path.startswith(script_name):
            raise Refusal(500, f"the path {shown(line.path)} doesn't start with SCRIPT_NAME {shown(script_name)}")
        if script_name != self._policy.script_name:
            environ["SCRIPT_NAME"] = script_name
            environ["PATH_INFO"] = path_info(line.path[len(script_name) :])
        host = environ.get("HTTP_HOST")
        if host is None and head.version >= HTTP_1_1:
            raise Refusal(400, "an HTTP/1.1 request needs a Host field (RFC 9112 section 3.2): send one")
        if origin.socket is not None:
            environ.update(host_environ(host, environ["wsgi.url_scheme"]) if host else origin.socket)


def _note(effect: str, value: str, effects: dict[str, str]) -> None:
    """Remembers what a field does besides its place in the environ."""
    if effect == CODING:
        earlier = effects.get(CODING)
        effects[CODING] = value if earlier is None else f"{earlier},{value}"
    elif effect == SCRIPT_NAME:
        effects[SCRIPT_NAME] = value
    elif effects.setdefault(_SCHEME, effect) != effect:
        raise Refusal(400, "the fields of the proxy contradict each other about http and https: send one of them")
