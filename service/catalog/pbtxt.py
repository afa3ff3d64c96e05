"""Protocol buffers' text format, as far as configuration files use it.

Source: https://protobuf.dev/reference/protobuf/textformat-spec/. Extensions and `Any` in square brackets are
refused; everything else of the language is read. Values keep their text: only the reader knows their types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from service.errors import ConfigurationError

_TOKEN = re.compile(
    r"(?P<space>(?:\s|#[^\n]*)+)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>-?[ \t]*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)(?![\w.])"
    r"|-[ \t]*[A-Za-z]+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<sign>[:{}<>\[\],;])"
)
_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv?\\'\"])|(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})"
    r"|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|(?P<bad>.))"
)
_PLAIN = dict(zip("abfnrtv?\\'\"", "\a\b\f\n\r\t\v?\\'\"", strict=True))
_CLOSER = {"{": "}", "<": ">"}
_DEEPEST = 50


class Scalar(NamedTuple):
    """One value: its text, whether it was quoted, and its line."""

    text: str
    quoted: bool
    line: int


@dataclass(frozen=True, slots=True)
class Message:
    """Fields in their order; a list comes as its field repeated."""

    fields: tuple[Field, ...]
    line: int


class Field(NamedTuple):
    """A name with its value."""

    name: str
    value: Value
    line: int


Value: TypeAlias = Scalar | Message


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class _Unreadable(ValueError):
    def __init__(self, line: int, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.line = line


def parse(text: str, file_name: str) -> Message:
    """Reads a whole file.

    Raises:
        ConfigurationError: it isn't in this format; with the line.
    """
    try:
        return _Parser(list(_tokens(text))).message("", 1)
    except _Unreadable as fault:
        raise ConfigurationError([f"{file_name}:{fault.line}: {fault}"]) from None


def _tokens(text: str) -> Iterator[_Token]:
    offset, line = 0, 1
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None:
            raise _Unreadable(line, "a name, a value or one of : { } < > [ ] , ;", repr(text[offset : offset + 20]))
        if found.lastgroup != "space":
            yield _Token(found.lastgroup or "", found[0], line)
        line += found[0].count("\n")
        offset = found.end()
    yield _Token("end", "", line)


class _Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def message(self, closer: str, line: int) -> Message:
        """Fields up to the closing sign, or to the end of the file where that is empty."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unreadable(line, f"at most {_DEEPEST} messages inside each other", "more")
        fields: list[Field] = []
        while not self._takes(closer):
            fields.extend(self._field(closer))
            if not self._takes(","):
                self._takes(";")
        self._depth -= 1
        return Message(tuple(fields), line)

    def _field(self, closer: str) -> Iterator[Field]:
        name = self._token
        if name.kind != "word":
            raise self._unexpected(f"the name of a field or {closer}" if closer else "the name of a field")
        self._next += 1
        colon = self._takes(":")
        values = self._list() if self._takes("[") else [self._value(colon=colon)]
        for value in values:
            if not colon and isinstance(value, Scalar):
                raise _Unreadable(name.line, f"a colon after {name.text}", repr(value.text))
            yield Field(name.text, value, name.line)

    def _list(self) -> list[Value]:
        values: list[Value] = []
        if self._takes("]"):
            return values
        while True:
            values.append(self._value(colon=True))
            if self._takes("]"):
                return values
            if not self._takes(","):
                raise self._unexpected(", or ]")

    def _value(self, *, colon: bool) -> Value:
        token = self._token
        if token.text in _CLOSER and token.kind == "sign":
            self._next += 1
            return self.message(_CLOSER[token.text], token.line)
        if token.kind == "string":
            return self._string()
        if token.kind in ("word", "number"):
            self._next += 1
            return Scalar(token.text.replace(" ", "").replace("\t", ""), quoted=False, line=token.line)
        raise self._unexpected("a value" if colon else "a colon or {")

    def _string(self) -> Scalar:
        """Strings side by side are one."""
        line = self._token.line
        parts = []
        while self._token.kind == "string":
            parts.append(_unescape(self._token))
            self._next += 1
        try:
            return Scalar(b"".join(parts).decode(), quoted=True, line=line)
        except UnicodeDecodeError:
            raise _Unreadable(line, "text in UTF-8", repr(b"".join(parts))) from None

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _takes(self, sign: str) -> bool:
        token = self._token
        if token.text != sign or token.kind not in ("sign", "end"):
            return False
        self._next += token.kind == "sign"
        return True

    def _unexpected(self, expected: str) -> _Unreadable:
        token = self._token
        return _Unreadable(token.line, expected, repr(token.text) if token.text else "the end of the file")


def _unescape(token: _Token) -> bytes:
    """A quoted string as its bytes; an octal or hexadecimal escape is a single one."""

    def one(found: re.Match[bytes]) -> bytes:
        kind, digits = found.lastgroup, found[found.lastgroup or 0].decode("latin-1")
        if kind == "plain":
            return _PLAIN[digits].encode()
        if kind in ("u4", "u8"):
            return chr(int(digits, 16)).encode("utf-8", "surrogatepass")
        number = int(digits, 8 if kind == "octal" else 16) if kind != "bad" else 256
        if number > 255:  # noqa: PLR2004 - a byte
            raise _Unreadable(token.line, "an escape such as \\n, \\x41 or \\101", repr(found[0].decode("latin-1")))
        return bytes([number])

    return re.sub(_ESCAPE.pattern.encode(), one, token.text[1:-1].encode("utf-8"), flags=re.DOTALL)
