"""Execution providers strictly in the order asked, with no silent fallback.

ONNX Runtime only warns when a provider isn't in its package, and serves on the CPU. Here it is an error that
says what is there and what to install, unless the model's configuration allows the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnxruntime

from service.engine.options import EngineOptions, Provider
from service.errors import ModelLoadError

CPU = "CPUExecutionProvider"

_PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "CANNExecutionProvider": "onnxruntime-cann",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
    "DmlExecutionProvider": "onnxruntime-directml",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "ROCMExecutionProvider": "onnxruntime-rocm",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
}
_GO_ON = 'set on_missing_provider = "next" to go on with the next in the list'


def choose(options: EngineOptions) -> tuple[tuple[Provider, ...], tuple[str, ...]]:
    """The providers to open a session with, and a sentence on those of the list that aren't there.

    Raises:
        ModelLoadError: one is missing and `on_missing_provider` is `fail`, or none is there.
    """
    available = onnxruntime.get_available_providers()
    missing = [provider.name for provider in options.providers if provider.name not in available]
    if not missing:
        return options.providers, ()
    chosen = tuple(provider for provider in options.providers if provider.name in available)
    absent = f"execution provider {', '.join(missing)} is not in this ONNX Runtime, which has {', '.join(available)}"
    packages = list(dict.fromkeys(_PACKAGES[name] for name in missing if name in _PACKAGES))
    install = [f"install the package {' or '.join(packages)} in place of onnxruntime"] if packages else []
    if options.on_missing_provider == "next" and chosen:
        return chosen, ("; ".join([absent, *install, "until then the model goes on with the next in `providers`"]),)
    if options.on_missing_provider == "next":
        ways = ["add one that is there to `providers`"]
    else:
        ways = ["take it out of `providers`", f"or {_GO_ON}"]
    raise ModelLoadError(f"{absent}; {', '.join([*install, *ways])}")


def passed_over(chosen: tuple[Provider, ...], loaded: list[str], options: EngineOptions) -> tuple[str, ...]:
    """Compares what a session loaded with what it was asked for.

    Returns:
        A sentence on the providers that could not start, where `on_missing_provider` is `next`.

    Raises:
        ModelLoadError: a provider that is in the package could not start (no driver, say) and none may stand in.
    """
    failed = [provider.name for provider in chosen if provider.name not in loaded]
    if not failed:
        return ()
    sentence = (
        f"execution provider {', '.join(failed)} could not start; check its options, its driver and libraries "
        "(ONNX Runtime wrote its reason to the log)"
    )
    if options.on_missing_provider == "fail":
        raise ModelLoadError(f"{sentence}, take it out of `providers`, or {_GO_ON}")
    if len(failed) == len(chosen):
        raise ModelLoadError(f"{sentence}, or add one that works to `providers`")
    return (f"{sentence}; until then the model goes on with the next in `providers`",)


def idle(loaded: list[str], nodes: Mapping[str, int]) -> tuple[str, ...]:
    """A sentence on each accelerator that is loaded and got none of the model's nodes.

    Args:
        loaded: names of the providers of the session.
        nodes: how many nodes each of them runs; empty where that isn't known.
    """
    return tuple(
        f"{name} takes none of the model's nodes: it runs on {', '.join(nodes)}"
        for name in loaded
        if nodes and name != CPU and name not in nodes
    )
