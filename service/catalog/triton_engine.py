"""The part of Triton's `config.pbtxt` that concerns the session: instances, parameters, optimization.

Source: the README of Triton's ONNX Runtime backend; options of the providers as ONNX Runtime documents them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from service.catalog.pbtxt import Field
from service.catalog.triton_schema import entries, said, word
from service.catalog.triton_settings import Draft
from service.engine.options import CPU, Provider

_CUDA, _TENSORRT, _OPENVINO = "CUDAExecutionProvider", "TensorrtExecutionProvider", "OpenVINOExecutionProvider"
_LEVELS = {"-1": "basic", "0": "all", "1": "extended", "2": "off"}
_MOST_THREADS = 1024
_FLAGS = {"1": True, "true": True, "0": False, "false": False}
_CUDA_PARAMETERS: dict[str, Mapping[str, str] | None] = {
    "cudnn_conv_algo_search": {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"},
    "arena_extend_strategy": {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"},
    "gpu_mem_limit": None,
    "do_copy_in_default_stream": None,
}
_TENSORRT_NAMES = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
_PRECISIONS = {
    "FP32": {},
    "FP16": {"trt_fp16_enable": "true"},
    "INT8": {"trt_int8_enable": "true"},
}


def instance_group(at: Field, draft: Draft) -> None:
    """Where a model runs is taken over; how many times is the core plan's to say."""
    parts = {part.name: part for part in draft.found.inner(at)}
    kind = word(parts["kind"]) if "kind" in parts else "KIND_AUTO"
    devices = [word(part) for part in draft.found.inner(at) if part.name == "gpus"]
    if kind == "KIND_GPU" and draft.gpu is None:
        draft.gpu = devices[0] if devices else "0"
        draft.asked_at = draft.asked_at or at
    elif kind not in ("KIND_CPU", "KIND_AUTO", "KIND_GPU"):
        draft.found.note(parts["kind"], f"{kind} is not offered; the model runs on its providers")
    if "count" in parts:
        draft.found.note(
            parts["count"],
            f"{said(parts['count'])} is advice only: every worker has one session, set `workers` instead",
        )
    if len(set(devices)) > 1:
        draft.found.note(parts["gpus"], f"lists several devices; only {draft.gpu} is used")
    for name, part in parts.items():
        if name not in ("kind", "count", "gpus", "name"):
            draft.found.note(part, "in instance_group has no meaning here and changes nothing")


def parameter(at: Field, draft: Draft) -> None:
    """One entry of `parameters`, those of the ONNX Runtime backend."""
    for entry in entries(at, draft.found):
        read = _PARAMETERS.get(entry.name)
        if read is not None:
            read(entry, draft)
        elif entry.name in _CUDA_PARAMETERS:
            _cuda_parameter(entry, draft)
        elif entry.name.startswith("session."):
            draft.entries[entry.name] = word(entry)
        else:
            draft.found.note(entry, "in parameters has no meaning here and changes nothing")


def _threads(entry: Field, draft: Draft) -> None:
    count = word(entry)
    if not re.fullmatch(r"[0-9]{1,9}", count) or int(count) > _MOST_THREADS:
        draft.found.problem(entry, f"must be a whole number from 0 to {_MOST_THREADS}, got {said(entry)}")
    elif int(count) > 0:
        draft.set("threads", int(count), entry)


def _inter_threads(entry: Field, draft: Draft) -> None:
    if word(entry) not in ("0", "1"):
        draft.found.note(entry, "changes nothing: nodes run one after another, on the threads of one run")


def _mode(entry: Field, draft: Draft) -> None:
    if word(entry) != "0":
        draft.found.note(entry, "changes nothing: nodes run one after another (ORT_SEQUENTIAL)")


def _flag(name: str) -> Callable[[Field, Draft], None]:
    def read(entry: Field, draft: Draft) -> None:
        value = _FLAGS.get(word(entry).lower())
        if value is None:
            draft.found.problem(entry, f"must be 0 or 1, got {said(entry)}")
        draft.set(name, value, entry)

    return read


_PARAMETERS: dict[str, Callable[[Field, Draft], None]] = {
    "intra_op_thread_count": _threads,
    "inter_op_thread_count": _inter_threads,
    "execution_mode": _mode,
    "enable_mem_arena": _flag("memory_arena"),
    "enable_mem_pattern": _flag("memory_pattern"),
}


def _cuda_parameter(entry: Field, draft: Draft) -> None:
    words = _CUDA_PARAMETERS[entry.name]
    value = word(entry) if words is None else words.get(word(entry), word(entry))
    draft.cuda_options[entry.name] = value


def optimization(at: Field, draft: Draft) -> None:
    """Graph level and accelerators."""
    for part in draft.found.inner(at):
        if part.name == "graph":
            _graph(part, draft)
        elif part.name == "execution_accelerators":
            _accelerators(part, draft)
        else:
            draft.found.note(part, "in optimization has no meaning here and changes nothing")


def _graph(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        level = _LEVELS.get(word(part))
        if part.name == "level" and level is None:
            draft.found.problem(part, f"must be -1, 0, 1 or 2, got {said(part)}")
        draft.set("graph_optimization", level, part)


def _accelerators(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        found = {inner.name: inner for inner in draft.found.inner(part)}
        name = word(found["name"]) if "name" in found else ""
        options: dict[str, str] = {}
        for inner in draft.found.inner(part):
            if inner.name == "parameters":
                for entry in entries(inner, draft.found):
                    _option(name, entry, options, draft)
        provider = {"tensorrt": _TENSORRT, "cuda": _CUDA, "openvino": _OPENVINO}.get(name)
        if provider is None:
            draft.found.problem(part, f"names the accelerator '{name}'; tensorrt, cuda and openvino can be served")
            continue
        draft.asked_at = draft.asked_at or at
        draft.accelerators.append(Provider(provider, tuple(options.items())))


def _option(accelerator: str, entry: Field, options: dict[str, str], draft: Draft) -> None:
    """One parameter of an accelerator as the provider's own option."""
    if accelerator != "tensorrt":
        options[entry.name] = word(entry)
    elif entry.name == "precision_mode" and word(entry) in _PRECISIONS:
        options.update(_PRECISIONS[word(entry)])
    elif entry.name.startswith("trt_") or entry.name in _TENSORRT_NAMES:
        options[_TENSORRT_NAMES.get(entry.name, entry.name)] = word(entry)
    else:
        draft.found.problem(entry, f"{said(entry)} is no parameter of tensorrt")


def finish(draft: Draft) -> None:
    """The list of providers: the accelerators asked for, then CUDA for a model on a GPU, then the CPU."""
    asked = list(draft.accelerators)
    names = [provider.name for provider in asked]
    needs_cuda = draft.gpu is not None or _TENSORRT in names
    if needs_cuda and _CUDA not in names:
        asked.append(Provider(_CUDA))
    if draft.asked_at is not None:
        draft.set("providers", (*(_completed(provider, draft) for provider in asked), CPU), draft.asked_at)
    elif draft.cuda_options:
        names_given = ", ".join(draft.cuda_options)
        draft.found.notes.append(f"{draft.found.file_name}: {names_given} change nothing for a model on the CPU")


def _completed(provider: Provider, draft: Draft) -> Provider:
    options = dict(provider.options)
    if draft.gpu is not None and provider.name in (_CUDA, _TENSORRT):
        options = {"device_id": draft.gpu, **options}
    if provider.name == _CUDA:
        options = {**draft.cuda_options, **options}
    return Provider(provider.name, tuple(options.items()))
