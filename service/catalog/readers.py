"""Readers of single values of `model.toml`: what TOML gave to what the service keeps.

Each raises ValueError with what would have been right, as `rows.read_value` wants it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any

from service.catalog.rows import Fault, Faults, Row, read_table, read_value, shown
from service.engine.options import Provider

_PROVIDERS = {
    "acl": "ACLExecutionProvider",
    "cann": "CANNExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "dml": "DmlExecutionProvider",
    "dnnl": "DnnlExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "nvtensorrtrtx": "NvTensorRTRTXExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "vitisai": "VitisAIExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
}
_CANONICAL = {name.lower(): name for name in _PROVIDERS.values()}


def flag(value: Any) -> bool:
    """`true` or `false`."""
    if value is True or value is False:
        return bool(value)
    raise ValueError("true or false")


def whole(low: int, high: int = 2**31 - 1) -> Callable[[Any], int]:
    """Reader of whole numbers from `low` to `high`; the highest is what ONNX Runtime's `int` can hold."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return read


def number(value: Any) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("a number")
    return float(value)


def above_zero(value: Any) -> float:
    """A finite number above 0."""
    try:
        found = number(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ValueError("a number above 0")
    return found


def one_of(*words: str) -> Callable[[Any], str]:
    """Reader of one word of a list."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(value)

    return read


def table(value: Any) -> Mapping[str, Any]:
    """A table."""
    if isinstance(value, dict):
        return value
    raise ValueError("a table")


def entries(value: Any) -> tuple[tuple[str, str], ...]:
    """A table of ONNX Runtime's session configuration entries; `true` and `false` are its `1` and `0`."""
    return _pairs(table(value), "1", "0")


def _pairs(options: Mapping[str, Any], true: str, false: str) -> tuple[tuple[str, str], ...]:
    faults = [
        Fault((key,), f"expected a text, a number, true or false, got {shown(value)}")
        for key, value in options.items()
        if not isinstance(value, str | int | float)
    ]
    if faults:
        raise Faults(faults)
    words = {True: true, False: false}
    return tuple((key, words[value] if isinstance(value, bool) else str(value)) for key, value in options.items())


def each(read: Callable[[Any], Any]) -> Callable[[Any], tuple[tuple[str, Any], ...]]:
    """Reader of a table whose keys are the owner's, each value read by `read`."""

    def read_all(value: Any) -> tuple[tuple[str, Any], ...]:
        rows = [Row(name, "", "", "", read) for name in table(value)]
        return tuple(read_table(rows, value).items())

    return read_all


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("a list of texts")
    return tuple(value)


lengths = each(whole(1, 2**63 - 1))
"""Reader of a table of free dimensions with their lengths."""


def _labels(value: Any) -> tuple[str, ...] | str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and all(isinstance(label, str) for label in value):
        return tuple(value)
    raise ValueError("a list of texts, or the name of a file with one label a line")


labels = each(_labels)
"""Reader of a table of outputs with their class names, or with the name of a file that holds them."""


def provider_name(value: Any) -> str:
    """An execution provider by ONNX Runtime's name, from its own or the short one."""
    word = value.lower() if isinstance(value, str) else ""
    name = _PROVIDERS.get(word) or _CANONICAL.get(word)
    if name is not None:
        return name
    # All long names end alike, so only their beginnings tell which one was meant.
    near = difflib.get_close_matches(word.partition("exec")[0], _PROVIDERS, n=1, cutoff=0.7)
    if near:
        meant = _PROVIDERS[near[0]] if "exec" in word else near[0]
        raise ValueError(f"an execution provider (did you mean `{meant}`?)")
    raise ValueError(f"one of {', '.join(_PROVIDERS)}, or ONNX Runtime's own name of one")


def provider_options(value: Any) -> tuple[tuple[str, str], ...]:
    """A table of a provider's options; every provider takes `true` and `false`."""
    return _pairs(table(value), "true", "false")


PROVIDER_ROWS = (
    Row("name", "", "", "Short name, such as `cuda`, or ONNX Runtime's own, `CUDAExecutionProvider`.", provider_name),
    Row("options", "", "`{}`", "Options of the provider, by its own names.", provider_options),
)


def providers(value: Any) -> tuple[Provider, ...]:
    """A list of providers, each a name or a table of `name` and `options`, none twice."""
    if not isinstance(value, list) or not value:
        raise ValueError('a list such as ["cuda", "cpu"]')
    found: list[Provider] = []
    faults: list[Fault] = []
    for item in value:
        try:
            provider = _provider(item)
        except Faults as wrong:
            faults.extend(wrong.faults)
            continue
        if provider.name in [other.name for other in found]:
            faults.append(Fault((), f"{provider.name} is listed twice"))
        found.append(provider)
    if faults:
        raise Faults(faults)
    return tuple(found)


def _provider(item: Any) -> Provider:
    if not isinstance(item, dict):
        return Provider(read_value(provider_name, item, ()))
    parts = read_table(PROVIDER_ROWS, item, required=("name",))
    return Provider(parts["name"], parts.get("options", ()))
