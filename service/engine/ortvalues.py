"""Tensors that numpy can't name, in and out of an OrtValue: BF16 travels as `uint16`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from service.tensors import BF16, Array

_ONNX_BFLOAT16 = 16


def wrap_bf16(array: Array) -> Any:
    """An OrtValue over the upper halves of float32 numbers."""
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _ONNX_BFLOAT16)


def wrap_all(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """OrtValues of all feeds, those that are one already as they are."""
    return {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in feeds.items()
    }


def unwrap(value: Any) -> Array:
    """The array of an OrtValue; a copy for BF16, whose memory ends with the value."""
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    size_bytes = math.prod(shape) * BF16.size_bytes
    raw = ctypes.string_at(value.data_ptr(), size_bytes) if size_bytes else b""
    return np.frombuffer(raw, BF16.dtype).reshape(shape)
