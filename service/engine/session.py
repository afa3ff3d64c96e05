"""A session: one model opened for one lane.

`run` is the only place where a model computes. It takes arrays by input name and gives arrays in the order of
the outputs asked for, BF16 as `uint16`, a sequence of maps as a dense matrix.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from service.engine import maps, ortvalues, providers
from service.engine.options import CPU, EngineOptions, Provider
from service.engine.signature import Declared, read_declared
from service.errors import ModelLoadError, RefusedByModel, RunFailed
from service.tensors import BF16, BY_ONNX_NAME, Array, Dim, TensorSpec

_LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_LOG_ERRORS_ONLY = 3

_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE = re.compile(r"\S*onnxruntime\S*\.(?:cc|h):\d+ \S.*?\) ")


class Session:
    """An open model.

    Attributes:
        inputs: declared inputs, those with defaults last.
        outputs: declared outputs in the model's order.
        providers: the execution providers that serve, in order.
        nodes: how many of the model's nodes each runs; empty where only the CPU was asked for, or it isn't known.
        notes: sentences on providers that were asked for and don't serve.
        labels: class names of the outputs that are maps, known after the first run.
        threads: intra-op threads.
    """

    __slots__ = (
        "_bf16_inputs",
        "_bf16_outputs",
        "_class_maps",
        "_run",
        "_session",
        "_special",
        "inputs",
        "labels",
        "nodes",
        "notes",
        "outputs",
        "providers",
        "threads",
    )

    def __init__(self, session: onnxruntime.InferenceSession, declared: Declared, threads: int) -> None:
        self._session = session
        # What InferenceSession.run calls after checks that ours have made already: 1 to 7 µs less a run.
        self._run = session._sess.run  # noqa: SLF001
        self.inputs = _inputs(session, declared)
        self.outputs = _outputs(session, declared)
        self.providers: tuple[str, ...] = tuple(session.get_providers())
        self.labels: dict[str, tuple[str, ...]] = {}
        self.nodes: dict[str, int] = {}
        self.notes: tuple[str, ...] = ()
        self.threads = threads
        self._bf16_inputs = {spec.name for spec in self.inputs if spec.datatype is BF16}
        self._bf16_outputs = {spec.name for spec in self.outputs if spec.datatype is BF16}
        self._class_maps = {spec.name for spec in self.outputs if spec.class_map}
        self._special = bool(self._bf16_inputs or self._bf16_outputs or self._class_maps)

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Runs the model once.

        Args:
            feeds: array by input name; shapes and types already checked against `inputs`.
            outputs: names in the order wanted.

        Raises:
            RefusedByModel: a kernel calls the values invalid.
            RunFailed: anything else that goes wrong in the run.
        """
        try:
            if self._special:
                return self._run_special(feeds, outputs)
            arrays: list[Array] = self._run(outputs, feeds, None)
        except ort_state.InvalidArgument as fault:
            raise RefusedByModel(f"the model refused the input: {readable(fault)}") from fault
        except Exception as fault:
            raise RunFailed("the model failed while it ran; the log says why under this request's id") from fault
        return arrays

    def _run_special(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        wrapped = {
            name: ortvalues.wrap_bf16(array) if name in self._bf16_inputs else array for name, array in feeds.items()
        }
        if not self._bf16_outputs.isdisjoint(outputs):
            values = self._session.run_with_ort_values(list(outputs), ortvalues.wrap_all(wrapped))
            return [ortvalues.unwrap(value) for value in values]
        results = self._run(outputs, wrapped, None)
        return [
            self._dense(name, result) if name in self._class_maps else result
            for name, result in zip(outputs, results, strict=True)
        ]

    def _dense(self, name: str, rows: Any) -> Array:
        scores, self.labels[name] = maps.dense(rows, self.labels.get(name, ()))
        return scores


def open_session(path: Path, options: EngineOptions, lane_threads: int) -> Session:
    """Opens a model for this process.

    Args:
        path: the model file; external data is found beside it.
        options: the model's options.
        lane_threads: intra-op threads where the options name no number.

    Raises:
        ModelLoadError: with the reason in words.
    """
    declared = read_declared(path)
    _check_free_dimensions(declared, options)
    threads = options.threads or lane_threads
    chosen, notes = providers.choose(options)
    while True:
        try:
            session = _open(path, _session_options(options, declared, threads), chosen)
        except ModelLoadError as fault:
            if options.on_missing_provider == "fail" or len(chosen) == 1:
                raise
            notes += (f"execution provider {chosen[0].name} can't open the model: {fault}",)
            chosen = chosen[1:]
            continue
        loaded = session.get_providers()
        notes += providers.passed_over(chosen, loaded, options)
        made = Session(session, declared, threads)
        made.nodes = _nodes(session, chosen)
        made.notes = notes + providers.idle(loaded, made.nodes)
        return made


def _nodes(session: onnxruntime.InferenceSession, chosen: tuple[Provider, ...]) -> dict[str, int]:
    # Packages for other providers may be older than 1.24, which brought it.
    assignment = getattr(session, "get_provider_graph_assignment_info", None)
    if chosen == (CPU,) or assignment is None:
        return {}
    nodes: dict[str, int] = {}
    for part in assignment():
        nodes[part.ep_name] = nodes.get(part.ep_name, 0) + len(part.get_nodes())
    return nodes


def _open(path: Path, session_options: Any, chosen: tuple[Provider, ...]) -> onnxruntime.InferenceSession:
    if all(provider.name != providers.CPU for provider in chosen):
        # Without the CPU in the list no node may end there unseen.
        session_options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if chosen != (CPU,):
        session_options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        return onnxruntime.InferenceSession(
            str(path),
            session_options,
            providers=[provider.name for provider in chosen],
            provider_options=[dict(provider.options) for provider in chosen],
            enable_fallback=0,
        )
    except Exception as fault:
        raise ModelLoadError(_reason(fault, chosen)) from fault


def _reason(fault: Exception, chosen: tuple[Provider, ...]) -> str:
    """ONNX Runtime's, or ours where its advice is of no use: the operator didn't disable anything."""
    if "fallback to CPU EP has been explicitly disabled" not in str(fault):
        return readable(fault)
    names = ", ".join(provider.name for provider in chosen)
    return (
        f"execution provider {names} could not start (then ONNX Runtime wrote its reason to the log) or can't run "
        'every node of the model; end `providers` with "cpu" to run those nodes on the CPU'
    )


def _session_options(options: EngineOptions, declared: Declared, threads: int) -> Any:
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = threads
    made.inter_op_num_threads = 1
    made.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    made.graph_optimization_level = _LEVELS[options.graph_optimization]
    made.log_severity_level = _LOG_ERRORS_ONLY
    made.enable_cpu_mem_arena = options.memory_arena
    fixed = dict(options.free_dimensions)
    pattern = options.memory_pattern
    made.enable_mem_pattern = _shapes_fixed(declared, fixed) if pattern is None else pattern
    for name, length in fixed.items():
        made.add_free_dimension_override_by_name(name, length)
    made.add_session_config_entry("session.intra_op.allow_spinning", "1" if options.spin else "0")
    if options.spin and options.spin_duration_us is not None:
        made.add_session_config_entry("session.intra_op.spin_duration_us", str(options.spin_duration_us))
    for key, value in options.entries:
        made.add_session_config_entry(key, value)
    return made


def _check_free_dimensions(declared: Declared, options: EngineOptions) -> None:
    """ONNX Runtime ignores a name that no input has; a typo would leave the dimension free without a word."""
    there = {dim for shape in declared.inputs.values() for dim in shape or () if isinstance(dim, str)}
    for name, _ in options.free_dimensions:
        if name not in there:
            raise ModelLoadError(
                f"`free_dimensions` names '{name}'; the free dimensions of the inputs are "
                f"{', '.join(sorted(there)) or 'none'}"
            )


def _shapes_fixed(declared: Declared, fixed: Mapping[str, int]) -> bool:
    """Whether every run has the same shapes; only then a memory pattern pays and stays bounded."""
    return all(
        shape is not None and all(isinstance(dim, int) or dim in fixed for dim in shape)
        for shape in declared.inputs.values()
    )


def _inputs(session: onnxruntime.InferenceSession, declared: Declared) -> tuple[TensorSpec, ...]:
    required = tuple(_spec(node, declared.inputs) for node in session.get_inputs())
    return required + tuple(
        _spec(node, declared.inputs, optional=True)
        for node in session.get_overridable_initializers()
        if node.name in declared.inputs
    )


def _outputs(session: onnxruntime.InferenceSession, declared: Declared) -> tuple[TensorSpec, ...]:
    specs = tuple(_spec(node, declared.outputs) for node in session.get_outputs())
    if not any(spec.datatype is BF16 for spec in specs):
        return specs
    # ONNX Runtime's Python gives BF16 only as an OrtValue, and maps only as Python objects: not both in one run.
    return tuple(dataclasses.replace(spec, class_map=False) for spec in specs)


def _spec(node: Any, shapes: Mapping[str, Any], *, optional: bool = False) -> TensorSpec:
    onnx_type: str = node.type
    element = onnx_type.removeprefix("tensor(").removesuffix(")") if onnx_type.startswith("tensor(") else ""
    shape: tuple[Dim, ...] | None = tuple(
        dim if isinstance(dim, int) and dim >= 0 else dim or None for dim in node.shape
    )
    if not shape and shapes.get(node.name, ()) is None:
        shape = None
    return TensorSpec(
        name=node.name,
        datatype=BY_ONNX_NAME.get(element),
        shape=shape,
        onnx_type=onnx_type,
        optional=optional,
        class_map=onnx_type in maps.CLASS_MAPS,
    )


def readable(fault: BaseException) -> str:
    """ONNX Runtime's text without its status code and the places in its source."""
    return _SOURCE.sub("", _STATUS.sub("", str(fault))).strip().removesuffix(".")


def available_providers() -> list[str]:
    """The execution providers in the installed package."""
    return list(onnxruntime.get_available_providers())


def runtime_version() -> str:
    """ONNX Runtime's version."""
    return str(onnxruntime.__version__)
