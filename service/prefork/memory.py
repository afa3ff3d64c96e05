"""What has been read before, by its bytes: equal bytes mean the same."""

from __future__ import annotations

from typing import TypeVar

_MOST_MARKS = 1024

Value = TypeVar("Value")


class Memory(dict[bytes, Value]):
    """A bounded dictionary of what came at least twice.

    Texts that come once, with an id or a trace in them, would fill it and push out the others: of these only
    the hash is kept. When it is full it is emptied.
    """

    __slots__ = ("_longest_bytes", "_marks", "_most")

    def __init__(self, most: int, longest_bytes: int) -> None:
        """An empty memory.

        Args:
            most: entries.
            longest_bytes: of a text that is worth its place.
        """
        super().__init__()
        self._most = most
        self._longest_bytes = longest_bytes
        self._marks: set[int] = set()

    def is_worth(self, text: bytes) -> bool:
        """Whether a text that isn't here should be: it is short, and has been asked about before."""
        if len(text) > self._longest_bytes:
            return False
        marks, mark = self._marks, hash(text)
        if mark in marks:
            return True
        if len(marks) >= _MOST_MARKS:
            marks.clear()
        marks.add(mark)
        return False

    def keep(self, text: bytes, value: Value) -> None:
        """Takes in an entry."""
        if len(self) >= self._most:
            self.clear()
        self[text] = value
