"""A classifier's ZipMap output, a sequence of maps from class to score, as a dense matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.tensors import Array

CLASS_MAPS = frozenset({"seq(map(int64,tensor(float)))", "seq(map(string,tensor(float)))"})
"""ONNX Runtime's names of the types that are served as a matrix."""


def dense(rows: Sequence[Mapping[Any, float]], known: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Scores of shape `(rows, classes)` as FP32, classes in ascending order, and the classes' names.

    Args:
        rows: one map a row, all with the same classes.
        known: the names from an earlier run, for an answer without rows.
    """
    if not rows:
        return np.zeros((0, len(known)), np.float32), known
    classes = sorted(rows[0])
    scores = np.array([[row[name] for name in classes] for row in rows], np.float32)
    return scores, tuple(str(name) for name in classes)
