"""Where in a TOML file each key stands, for errors with a line number.

`tomllib` gives values without their places. This scanner runs after it, on text that is known to be valid TOML
1.0, so it only has to find where statements begin and where values end.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from service.catalog.rows import Place
from service.errors import ConfigurationError

_SPACE_OR_COMMENT = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_QUOTED = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_KEY = re.compile(r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^"'=\]])+""")
_OPENING, _CLOSING = "[{", "]}"


def read_toml(path: Path) -> tuple[dict[str, Any], dict[Place, int]]:
    """Reads a file.

    Returns:
        The document, and the line of every key and table by its place.

    Raises:
        ConfigurationError: it can't be read, isn't UTF-8 or isn't TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise ConfigurationError([f"{path.name}: it can't be read: {fault.strerror}"]) from None
    except UnicodeDecodeError as fault:
        raise ConfigurationError([f"{path.name}: expected UTF-8 text, got the byte {_byte(fault)}"]) from None
    try:
        return tomllib.loads(text), key_lines(text)
    except RecursionError:
        raise ConfigurationError([f"{path.name}: brackets are nested too deeply"]) from None
    except ValueError as fault:
        raise ConfigurationError([_syntax(path.name, text, str(fault))]) from None


def _byte(fault: UnicodeDecodeError) -> str:
    return f"0x{fault.object[fault.start]:02x} at offset {fault.start}"


def _syntax(name: str, text: str, message: str) -> str:
    """The parser ends its messages with `(at line 3, column 5)` or `(at end of document)`, Python's own don't."""
    sentence, _, place = message.partition(" (at ")
    found = re.match(r"line (\d+)", place)
    line = found[1] if found else len(text.splitlines())
    return f"{name}:{line}: this is no TOML: {sentence}"


def line_of(lines: dict[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest table around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def key_lines(text: str) -> dict[Place, int]:
    """The line of each key and table of valid TOML, the first one where a table comes several times."""
    lines: dict[Place, int] = {}
    table: Place = ()
    offset = _skip(text, 0)
    while offset < len(text):
        line = text.count("\n", 0, offset) + 1
        if text[offset] == "[":
            start = offset + 2 if text.startswith("[[", offset) else offset + 1
            end = _key_end(text, start)
            place = table = _place(text[start:end])
            offset = end + start - offset
        else:
            end = _key_end(text, offset)
            place = table + _place(text[offset:end])
            offset = _value_end(text, end + 1)
        for depth in range(1, len(place) + 1):
            lines.setdefault(place[:depth], line)
        offset = _skip(text, offset)
    return lines


def _skip(text: str, offset: int) -> int:
    found = _SPACE_OR_COMMENT.match(text, offset)
    return found.end() if found else offset


def _key_end(text: str, offset: int) -> int:
    found = _KEY.match(text, offset)
    return found.end() if found else offset


def _place(written: str) -> Place:
    """A dotted key as its parts; tomllib itself undoes the quoting."""
    node: Any = tomllib.loads(f"{written.strip()} = 0")
    parts: list[str] = []
    while isinstance(node, dict):
        [(part, node)] = node.items()
        parts.append(part)
    return tuple(parts)


def _value_end(text: str, offset: int) -> int:
    """The end of the statement whose value begins at `offset`: a line's end outside of brackets and strings."""
    depth = 0
    while offset < len(text):
        sign = text[offset]
        if sign == "\n" and depth == 0:
            break
        if sign == "#":
            offset = (text.find("\n", offset) + 1 or len(text) + 1) - 1
            continue
        if sign in "\"'" and (quoted := _QUOTED.match(text, offset)):
            offset = quoted.end()
            continue
        depth += (sign in _OPENING) - (sign in _CLOSING)
        offset += 1
    return offset
