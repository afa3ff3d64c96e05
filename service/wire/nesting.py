"""Nested JSON lists as the elements of a tensor in row-major order."""

from __future__ import annotations

from itertools import chain
from typing import Any, NoReturn

from service.errors import ShapeMismatch
from service.tensors import element_count


class Place:
    """Where an element stands in the request, for errors only.

    Attributes:
        tensor: name of the input.
        pointer: JSON pointer of its data.
    """

    __slots__ = ("pointer", "tensor")

    def __init__(self, tensor: str, pointer: str) -> None:
        self.tensor = tensor
        self.pointer = pointer


def flatten(data: list[Any], shape: tuple[int, ...], place: Place) -> list[Any]:
    """The elements of lists nested as the shape says.

    Raises:
        ShapeMismatch: too few, too many, ragged, or nested otherwise.
    """
    count = element_count(shape)
    if not any(item.__class__ is list for item in data):
        _wrong_count(len(data), count, shape, place)
    level: list[Any] = [data]
    for depth, length in enumerate(shape):
        if any(item.__class__ is not list for item in level):
            break
        wrong = next((index for index, item in enumerate(level) if len(item) != length), None)
        if wrong is not None:
            _ragged(level, wrong, length, depth, place)
        level = list(chain.from_iterable(level))
    if any(item.__class__ is list for item in level) or len(level) != count:
        _wrong_nesting(shape, place)
    return level


def infer_shape(data: Any, place: Place) -> tuple[list[Any], tuple[int, ...]]:
    """Elements and shape of nested lists as they come (v1 has no declared shape).

    Raises:
        ShapeMismatch: lists of different lengths beside each other.
    """
    level: list[Any] = [data]
    shape: list[int] = []
    while level and any(item.__class__ is list for item in level):
        wrong = next(
            (index for index, item in enumerate(level) if item.__class__ is not list or len(item) != len(level[0])),
            None,
        )
        if level[0].__class__ is not list or wrong is not None:
            _uneven(level, wrong or 0, len(shape), place)
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    return level, tuple(shape)


def _wrong_count(got: int, count: int, shape: tuple[int, ...], place: Place) -> NoReturn:
    raise ShapeMismatch(
        f"input '{place.tensor}': shape {list(shape)} holds {count} elements, the data has {got}",
        pointer=place.pointer,
        expected=count,
        received=got,
    )


def _ragged(level: list[Any], wrong: int, length: int, depth: int, place: Place) -> NoReturn:
    raise ShapeMismatch(
        f"input '{place.tensor}': expected lists of length {length} in dimension {depth} of the data, "
        f"list {wrong} has length {len(level[wrong])}",
        pointer=place.pointer,
        expected=length,
        received=len(level[wrong]),
    )


def _wrong_nesting(shape: tuple[int, ...], place: Place) -> NoReturn:
    raise ShapeMismatch(
        f"input '{place.tensor}': the data must be flat or nested as its shape {list(shape)} says; "
        "values and lists are mixed, or the nesting is too deep or too shallow",
        pointer=place.pointer,
        expected=list(shape),
    )


def _uneven(level: list[Any], wrong: int, depth: int, place: Place) -> NoReturn:
    if level[0].__class__ is list and level[wrong].__class__ is list:
        got, want = len(level[wrong]), len(level[0])
        raise ShapeMismatch(
            f"input '{place.tensor}': rows must have equal lengths; in dimension {depth} list {wrong} has length "
            f"{got}, list 0 has {want}",
            pointer=place.pointer,
            expected=want,
            received=got,
        )
    raise ShapeMismatch(
        f"input '{place.tensor}': values and lists are mixed in dimension {depth}, at list {wrong}",
        pointer=place.pointer,
    )
