"""Parameters of a request of the Open Inference Protocol, of its inputs and its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from service.errors import InvalidRequest, MalformedBody, NotOffered
from service.wire.elements import shown
from service.wire.nonfinite import POLICIES

_SCALARS = (str, int, float, bool)


def read_parameters(parameters: Any, pointer: str) -> dict[str, Any]:
    """The `parameters` of a request, an input or an output.

    Raises:
        MalformedBody: no object, or a value that is no scalar.
        NotOffered: shared memory, sequences.
    """
    if parameters is None:
        return {}
    if parameters.__class__ is not dict:
        raise MalformedBody(f"expected an object at {pointer}, got {shown(parameters)}", pointer=pointer)
    for key, value in parameters.items():
        if value is not None and not isinstance(value, _SCALARS):
            raise MalformedBody(
                f"parameter '{key}': expected a string, number or boolean, got {shown(value)}",
                pointer=f"{pointer}/{key}",
            )
        if key.startswith("shared_memory_"):
            raise NotOffered("shared memory is not offered; send the tensor in the body, as JSON or binary")
    if parameters.get("sequence_id"):
        raise NotOffered("sequences (sequence_id) are not offered; every request stands alone")
    typed: dict[str, Any] = parameters
    return typed


def binary_size(parameters: dict[str, Any], name: str, index: int) -> int | None:
    """Bytes of an input behind the JSON; None where its data is in it."""
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if size.__class__ is not int or size < 0:
        raise MalformedBody(
            f"input '{name}': expected a whole number of bytes from 0 on under 'binary_data_size', got {shown(size)}",
            pointer=f"/inputs/{index}/parameters/binary_data_size",
        )
    number: int = size
    return number


def flag(value: Any, name: str, pointer: str) -> bool:
    """A boolean parameter; null is false."""
    if value is None:
        return False
    if value.__class__ is not bool:
        bad_parameter(name, "true or false", value, pointer)
    typed: bool = value
    return typed


def nan_policy(parameters: Mapping[str, Any]) -> str:
    """How the caller wants NaN and infinities in JSON (`nonfinite.POLICIES`)."""
    policy = parameters.get("nan", "null")
    if policy not in POLICIES:
        bad_parameter("nan", f"one of {', '.join(POLICIES)}", policy, "/parameters")
    text: str = policy
    return text


def bad_parameter(name: str, expected: str, value: Any, pointer: str) -> NoReturn:
    """Refuses the value of a parameter."""
    raise InvalidRequest(f"parameter '{name}': expected {expected}, got {shown(value)}", pointer=f"{pointer}/{name}")
