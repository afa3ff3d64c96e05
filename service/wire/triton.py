"""A model's configuration as Triton shows it.

Source: Triton's `extension_model_configuration.md` and `model_config.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.tensors import TensorSpec
from service.wire.signature import Signature

_TYPES = {"BYTES": "TYPE_STRING"}


def model_configuration(
    name: str, signature: Signature, max_batch_size: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of `…/config`; dims are without the batch where `max_batch_size` isn't 0."""
    batched = max_batch_size > 0
    return {
        "name": name,
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "max_batch_size": max_batch_size,
        "default_model_filename": "model.onnx",
        "input": [_tensor(spec, batched=batched) for spec in signature.inputs],
        "output": [_tensor(spec, batched=batched) for spec in signature.outputs],
        **extra,
    }


def _tensor(spec: TensorSpec, *, batched: bool) -> dict[str, Any]:
    name = "FP32" if spec.class_map else spec.datatype.name if spec.datatype else "INVALID"
    shape: tuple[Any, ...] = (None, None) if spec.class_map else spec.shape or ()
    dims = [dim if isinstance(dim, int) else -1 for dim in shape]
    entry: dict[str, Any] = {
        "name": spec.name,
        "data_type": _TYPES.get(name, f"TYPE_{name}"),
        "dims": dims[1:] if batched else dims,
    }
    if spec.optional:
        entry["optional"] = True
    return entry
