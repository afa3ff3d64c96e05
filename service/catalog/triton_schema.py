"""Triton's model configuration as far as it is read here: typed access to a parsed `config.pbtxt`.

Source: `model_config.proto` of Triton's common repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from service.catalog.pbtxt import Field, Message, Scalar

_LISTS = frozenset({"input", "output", "dims", "shape", "instance_group", "gpus", "preferred_batch_size", "versions"})
_MAP = "parameters"


@dataclass(slots=True)
class Findings:
    """What is said of a file while it is read."""

    file_name: str
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def where(self, line: int) -> str:
        """A place in the file."""
        return f"{self.file_name}:{line}"

    def note(self, at: Field, sentence: str) -> None:
        """Something the owner should know, once where a list repeats its field."""
        told = f"{self.where(at.line)}: `{at.name}` {sentence}"
        if told not in self.notes:
            self.notes.append(told)

    def problem(self, at: Field, sentence: str) -> None:
        """Something because of which the model can't be served."""
        self.problems.append(f"{self.where(at.line)}: `{at.name}` {sentence}")

    def whole(self, at: Field, low: int) -> int | None:
        """A field's whole number from `low` on; None, and a problem, for anything else."""
        number = _number(at.value) if isinstance(at.value, Scalar) and not at.value.quoted else None
        if not isinstance(number, int) or number < low:
            self.problem(at, f"must be a whole number from {low} on, got {said(at)}")
            return None
        return number

    def text(self, at: Field) -> str | None:
        """A field's quoted text; None, and a problem, for anything else."""
        if isinstance(at.value, Scalar) and at.value.quoted:
            return at.value.text
        self.problem(at, f"must be a text in quotes, got {said(at)}")
        return None

    def inner(self, at: Field) -> tuple[Field, ...]:
        """The fields of a message; none, and a problem, for a plain value."""
        if isinstance(at.value, Message):
            return at.value.fields
        self.problem(at, f"must be a message in {{ }}, got {said(at)}")
        return ()


def said(at: Field) -> str:
    """A field's value as a sentence quotes it."""
    return "{…}" if isinstance(at.value, Message) else repr(at.value.text)


def word(at: Field) -> str:
    """The text of a plain value; empty for a message."""
    return at.value.text if isinstance(at.value, Scalar) else ""


def entries(at: Field, found: Findings) -> Iterator[Field]:
    """The entries of a map field, each as a field with the key's name: `{key: "a" value: "b"}`.

    A value that is a message with the one field `string_value` stands for that text.
    """
    inner = {part.name: part for part in found.inner(at)}
    key, value = inner.get("key"), inner.get("value")
    if key is None or value is None:
        found.problem(at, 'must have a key and a value: { key: "…" value: … }')
        return
    if isinstance(value.value, Message):
        texts = [part for part in value.value.fields if part.name == "string_value"]
        value = texts[0] if texts else value
    yield Field(word(key), value.value, at.line)


def as_json(message: Message) -> dict[str, Any]:
    """A message as Triton's JSON shows it."""
    document: dict[str, Any] = {}
    for at in message.fields:
        value = _json_value(at)
        if at.name == _MAP and isinstance(at.value, Message) and "key" in value:
            document.setdefault(_MAP, {})[value["key"]] = value.get("value")
        elif at.name in _LISTS:
            document.setdefault(at.name, []).append(value)
        else:
            document[at.name] = value
    return document


def _json_value(at: Field) -> Any:
    if isinstance(at.value, Message):
        return as_json(at.value)
    return at.value.text if at.value.quoted else _number(at.value)


def _number(value: Scalar) -> Any:
    """An unquoted value: a number, true or false, or else a word of an enumeration."""
    if value.text in ("true", "false"):
        return value.text == "true"
    for read in (_integer, float):
        try:
            return read(value.text.rstrip("fF") if read is float else value.text)
        except ValueError:
            continue
    return value.text


def _integer(text: str) -> int:
    """Decimal, hexadecimal or octal, as the text format writes them."""
    digits = text.removeprefix("-")
    base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") and len(digits) > 1 else 10
    return int(text, base)
