"""A model's inputs and outputs, arranged for reading requests and writing answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from service.errors import MissingTensor, NotOffered, ShapeMismatch, UnknownTensor
from service.tensors import TensorSpec
from service.wire import json_numbers
from service.wire.images import ImageInput
from service.wire.v2_plain import plain_model


class Signature:
    """What the wire needs to know of a model.

    Attributes:
        inputs: declared inputs in order.
        outputs: declared outputs in order.
        input_by_name: the inputs by name.
        output_by_name: the outputs by name.
        output_names: names of all outputs in order.
        required: names of the inputs without a default.
        images: how image bytes become the array of an input.
        labels: class names by output, from the configuration.
        fast_json_bytes: bytes of a JSON body from which its long lists are read by simdjson.
        plain: for the reader of plain requests; None if it can't read this model's.
    """

    __slots__ = (
        "fast_json_bytes",
        "images",
        "input_by_name",
        "inputs",
        "labels",
        "output_by_name",
        "output_names",
        "outputs",
        "plain",
        "required",
    )

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        images: Mapping[str, ImageInput] | None = None,
        labels: Mapping[str, tuple[str, ...]] | None = None,
        fast_json_bytes: int = json_numbers.FROM_BYTES,
    ) -> None:
        self.fast_json_bytes = fast_json_bytes
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.input_by_name = {spec.name: spec for spec in inputs}
        self.output_by_name = {spec.name: spec for spec in outputs}
        self.output_names = tuple(spec.name for spec in outputs)
        self.required = tuple(spec.name for spec in inputs if not spec.optional)
        self.images = dict(images or {})
        self.labels = dict(labels or {})
        self.plain = plain_model(self.inputs, self.outputs, images=bool(self.images))

    def input(self, name: str, pointer: str) -> TensorSpec:
        """The input of this name.

        Raises:
            UnknownTensor: the model has none; the message lists those it has.
            NotOffered: the protocol has no datatype for it.
        """
        spec = self.input_by_name.get(name)
        if spec is None:
            _unknown("input", name, self.input_by_name, pointer)
        if spec.datatype is None:
            raise NotOffered(
                f"input '{name}' has the type {spec.onnx_type}, which the protocol can't carry; "
                "export the model with tensors of numbers, booleans or strings"
            )
        return spec

    def output(self, name: str, pointer: str) -> TensorSpec:
        """The output of this name.

        Raises:
            UnknownTensor: the model has none; the message lists those it has.
        """
        spec = self.output_by_name.get(name)
        if spec is None:
            _unknown("output", name, self.output_by_name, pointer)
        return spec

    def check_complete(self, given: Mapping[str, object], pointer: str) -> None:
        """Raises MissingTensor unless every input without a default is given."""
        for name in self.required:
            if name not in given:
                raise MissingTensor(
                    f"input '{name}' is missing; the model needs {listed(self.required)}",
                    pointer=pointer,
                    expected=list(self.required),
                    received=list(given),
                )

    def check_served(self, outputs: Sequence[str]) -> None:
        """Raises NotOffered for an output whose type the protocol can't carry."""
        for name in outputs:
            spec = self.output_by_name[name]
            if spec.datatype is None and not spec.class_map:
                others = [other.name for other in self.outputs if other.datatype is not None or other.class_map]
                way = f"ask for other outputs ({listed(others)})" if others else "export it as a tensor"
                raise NotOffered(
                    f"output '{name}' has the type {spec.onnx_type}, which the protocol can't carry; {way}"
                )


def check_shape(spec: TensorSpec, shape: Sequence[int], pointer: str) -> None:
    """Raises ShapeMismatch unless a concrete shape fits the declared one."""
    declared = spec.shape
    if declared is None:
        return
    if len(declared) == len(shape):
        for want, got in zip(declared, shape, strict=True):
            if want.__class__ is int and want != got:
                break
        else:
            return
    raise ShapeMismatch(
        f"input '{spec.name}': expected shape {shown_shape(declared)}, got {list(shape)}",
        pointer=pointer,
        expected=[dim if dim is not None else -1 for dim in declared],
        received=list(shape),
    )


def shown_shape(shape: Sequence[int | str | None]) -> str:
    """A declared shape for people: `[batch, 4]`, -1 for a free dimension without a name."""
    return f"[{', '.join('-1' if dim is None else str(dim) for dim in shape)}]"


def listed(names: Sequence[str]) -> str:
    """Quoted names with commas."""
    return ", ".join(f"'{name}'" for name in names) or "none"


def _unknown(kind: str, name: str, known: Mapping[str, TensorSpec], pointer: str) -> NoReturn:
    raise UnknownTensor(
        f"the model has no {kind} '{name}'; its {kind}s are {listed(tuple(known))}",
        pointer=pointer,
        expected=list(known),
        received=name,
    )
