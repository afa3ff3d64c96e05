"""Execution providers strictly in the order asked, with no silent fallback.

ONNX Runtime only warns when a provider isn't in its package, and serves on the CPU. Here it is an error that
says what is there and what to install, unless the model's configuration allows the next one.
"""

from __future__ import annotations

import onnxruntime

from service.engine.options import EngineOptions, Provider
from service.errors import ModelLoadError

CPU = "CPUExecutionProvider"

_PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-gpu",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
    "DmlExecutionProvider": "onnxruntime-directml",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "ROCMExecutionProvider": "onnxruntime-rocm",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
}


def choose(options: EngineOptions) -> tuple[Provider, ...]:
    """The providers to open a session with: those asked for, or those of them that are there.

    Raises:
        ModelLoadError: one is missing and `on_missing_provider` is `fail`, or none is there.
    """
    available = onnxruntime.get_available_providers()
    missing = [provider.name for provider in options.providers if provider.name not in available]
    if missing and options.on_missing_provider == "fail":
        raise ModelLoadError(_absent(missing[0], available))
    chosen = tuple(provider for provider in options.providers if provider.name in available)
    if not chosen:
        raise ModelLoadError(_absent(missing[0], available))
    return chosen


def _absent(name: str, available: list[str]) -> str:
    package = _PACKAGES.get(name)
    install = (
        f"install the package {package} in place of onnxruntime" if package else "no package is known that brings it"
    )
    return (
        f"execution provider {name} is not in this ONNX Runtime, which has {', '.join(available)}; {install}, "
        'take it out of `providers`, or set on_missing_provider = "next" to go on with the next in the list'
    )


def verify(asked: tuple[Provider, ...], loaded: list[str]) -> None:
    """Compares what a session loaded with what it was asked for.

    Raises:
        ModelLoadError: a provider that is in the package could not start (no driver, say).
    """
    for provider in asked:
        if provider.name not in loaded:
            raise ModelLoadError(
                f"execution provider {provider.name} could not start; the session would run on "
                f"{', '.join(loaded)}. Check its driver and libraries, or set on_missing_provider = "
                '"next" to go on with the next in the list'
            )
