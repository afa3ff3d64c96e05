"""The models that are measured: those of `models/`, and generated ones that stand for kinds of work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("iris", "digits")
_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}

Array = NDArray[Any]


@dataclass(frozen=True)
class Model:
    """One model and one request for it.

    Attributes:
        name: of the model.
        repository: folder that holds it as `<name>/model.onnx`, and nothing else.
        feeds: array by input name.
        outputs: what the model answers to them, by output name; tensors only.
    """

    name: str
    repository: Path
    feeds: dict[str, Array]
    outputs: dict[str, Array]

    @property
    def path(self) -> Path:
        """Of the ONNX file."""
        return self.repository / self.name / "model.onnx"


def make(name: str, folder: Path) -> Model:
    """Puts a model into a repository of its own below `folder`."""
    repository = folder / f"{name}-repository"
    place = repository / name
    if name in SHIPPED:
        place.mkdir(parents=True)
        shutil.copyfile(ROOT / "models" / name / "1" / "model.onnx", place / "model.onnx")
    else:
        place.mkdir(parents=True)
        onnx.save(GENERATED[name](), place / "model.onnx")
    session = session_of(place / "model.onnx")
    feeds = feeds_of(session)
    names = [output.name for output in session.get_outputs() if output.type.startswith("tensor(")]
    return Model(name, repository, feeds, dict(zip(names, session.run(names, feeds), strict=True)))


def session_of(path: Path) -> Any:
    """A session with one thread, which is what one core can do."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds_of(session: Any) -> dict[str, Array]:
    """The same random input for a model each time: one row, 128 tokens."""
    generator = np.random.default_rng(7)
    feeds = {}
    for spec in session.get_inputs():
        free = iter((1, 128, 1, 1))
        shape = [dim if isinstance(dim, int) else next(free) for dim in spec.shape]
        values = generator.random(shape) if spec.type == "tensor(float)" else generator.integers(1, 1000, shape)
        feeds[spec.name] = values.astype(_DTYPES[spec.type])
    return feeds


class _Graph:
    """Nodes and constants; `add` returns the name of what a node gives."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.random = np.random.default_rng(7)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def model(self, shape: list[Any], out: list[Any], kind: int = TensorProto.FLOAT) -> Any:
        x = helper.make_tensor_value_info("x", kind, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, out)
        graph = helper.make_graph(self.nodes, "bench", [x], [y], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _mlp(*sizes: int) -> Any:
    graph, at = _Graph(), "x"
    for index, (rows, columns) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        at = graph.add("MatMul", at, graph.weight(rows, columns), out="y" if last else "")
        at = at if last else graph.add("Relu", at)
    return graph.model(["batch", sizes[0]], ["batch", sizes[-1]])


def _transformer(layers: int = 6, width: int = 384, heads: int = 12, inner: int = 1536) -> Any:
    graph = _Graph()
    ones, zeros = graph.constant(np.ones(width, np.float32)), graph.constant(np.zeros(width, np.float32))
    split = graph.constant(np.array([0, 0, heads, width // heads], np.int64))
    joined = graph.constant(np.array([0, 0, width], np.int64))

    def norm(at: str) -> str:
        return graph.add("LayerNormalization", at, ones, zeros, axis=-1)

    def head(at: str, order: list[int]) -> str:
        projected = graph.add("MatMul", at, graph.weight(width, width))
        return graph.add("Transpose", graph.add("Reshape", projected, split), perm=order)

    at = norm(graph.add("Gather", graph.weight(8000, width), "x"))
    for _ in range(layers):
        query, key, value = head(at, [0, 2, 1, 3]), head(at, [0, 2, 3, 1]), head(at, [0, 2, 1, 3])
        mixed = graph.add("MatMul", graph.add("Softmax", graph.add("MatMul", query, key), axis=-1), value)
        mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        at = norm(graph.add("Add", at, graph.add("MatMul", mixed, graph.weight(width, width))))
        wide = graph.add("Relu", graph.add("MatMul", at, graph.weight(width, inner)))
        at = norm(graph.add("Add", at, graph.add("MatMul", wide, graph.weight(inner, width))))
    graph.add("ReduceMean", at, out="y", axes=[1], keepdims=0)
    return graph.model(["batch", "tokens"], ["batch", width], TensorProto.INT64)


def _convolution(blocks: tuple[int, ...] = (32, 64, 128, 256, 512)) -> Any:
    graph, at, channels = _Graph(), "x", 3
    for size in blocks:
        for step in (2, 1):
            kernel = graph.random.standard_normal((size, channels, 3, 3)) / np.sqrt(channels * 9)
            weight = graph.constant(kernel.astype(np.float32))
            at = graph.add("Relu", graph.add("Conv", at, weight, strides=[step, step], pads=[1, 1, 1, 1]))
            channels = size
    at = graph.add("Flatten", graph.add("GlobalAveragePool", at))
    graph.add("MatMul", at, graph.weight(channels, 1000), out="y")
    return graph.model(["batch", 3, 224, 224], ["batch", 1000])


def _large_in_and_out() -> Any:
    """1.2 million numbers in, 2.1 million out, nothing but a copy between."""
    graph = _Graph()
    flat = graph.add("Reshape", "x", graph.constant(np.array([-1], np.int64)))
    more = 25200 * 85 - 3 * 640 * 640
    tail = graph.add("Slice", flat, graph.constant(np.array([0])), graph.constant(np.array([more])))
    joined = graph.add("Concat", flat, tail, axis=0)
    graph.add("Reshape", joined, graph.constant(np.array([1, 25200, 85], np.int64)), out="y")
    return graph.model([1, 3, 640, 640], [1, 25200, 85])


GENERATED: dict[str, Callable[[], Any]] = {
    "tiny": lambda: _mlp(16, 32, 3),
    "small": lambda: _mlp(64, 512, 512, 10),
    "wide": lambda: _mlp(256, 2048, 2048, 10),
    "embed": _transformer,
    "conv": _convolution,
    "bigio": _large_in_and_out,
}
NAMES = (*SHIPPED, *GENERATED)
