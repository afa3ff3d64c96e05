"""Tables of keys: each key a row with its unit, default, sentence and reader; every fault with its place.

`model.toml` is read by these rows and `docs/model-toml.md` is written from them, so they can't disagree.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, ...]
"""Keys from the top of the file down to a value."""

_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: the place below the value that was read, and the sentence."""

    place: Place
    sentence: str


class Faults(ValueError):
    """Everything that is wrong with a value of several parts."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(fault.sentence for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Row:
    """One key.

    Attributes:
        key: its name in the file.
        unit: of the value; empty where it has none.
        default: as the docs show it, in Markdown; empty for a key that must be there.
        sentence: what it does.
        read: value to what the service keeps; raises ValueError with what would have been right, or Faults.
    """

    key: str
    unit: str
    default: str
    sentence: str
    read: Callable[[Any], Any]


def shown(value: Any) -> str:
    """A value as a sentence quotes it, in TOML's spelling and not too long."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def read_value(read: Callable[[Any], Any], value: Any, place: Place) -> Any:
    """Reads one value.

    Raises:
        Faults: each with its whole place.
    """
    try:
        return read(value)
    except Faults as faults:
        raise Faults([Fault(place + fault.place, fault.sentence) for fault in faults.faults]) from None
    except ValueError as expected:
        raise Faults([Fault(place, f"expected {expected}, got {shown(value)}")]) from None


def read_table(rows: Sequence[Row], table: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """Reads a table by its rows.

    Args:
        rows: the keys that may be there.
        table: as parsed.
        required: the keys that must be there.

    Returns:
        What was given, by key.

    Raises:
        Faults: everything that is wrong, unknown and missing keys included.
    """
    by_key = {row.key: row for row in rows}
    values: dict[str, Any] = {}
    faults = [Fault((), f"`{key}` is missing. {by_key[key].sentence}") for key in required if key not in table]
    for key, value in table.items():
        if key not in by_key:
            faults.append(Fault((key,), unknown(key, list(by_key))))
            continue
        try:
            values[key] = read_value(by_key[key].read, value, (key,))
        except Faults as found:
            faults.extend(found.faults)
    if faults:
        raise Faults(faults)
    return values


def unknown(key: str, known: Sequence[str]) -> str:
    """The sentence on a key that isn't known, with the nearest one that is."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"the keys here are {', '.join(known)}"
    return f"unknown key; {hint}"


def table_of_rows(rows: Sequence[Row]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| key | unit | default | what it does |", "|---|---|---|---|"]
    lines.extend(
        f"| `{row.key}` | {row.unit or '-'} | {row.default or 'must be given'} | {row.sentence} |" for row in rows
    )
    return lines
