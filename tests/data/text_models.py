"""Models that read texts of any length: tokens and a mask in, a vector for each token and one for the text out."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY = 200


class _Graph:
    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(11)

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape):
        return self.constant((self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(self, kind, *inputs, out="", **attributes):
        out = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out


def text_model(*, width=32, inner=64, layers=1, heeds_mask=True, pooling="mean", dtype=TensorProto.INT64):
    """A small transformer with one head.

    Args:
        width: of a token's vector.
        inner: width of the layer between.
        layers: how many.
        heeds_mask: whether what the mask hides is kept out of attention and mean.
        pooling: `mean` over the real positions, or `last` for the last position, real or not.
        dtype: of the mask.
    """
    graph = _Graph()
    ones, zeros = graph.constant(np.ones(width, np.float32)), graph.constant(np.zeros(width, np.float32))
    one = graph.constant(np.float32(1))
    real = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    if not heeds_mask:
        real = graph.add("Add", graph.add("Mul", real, graph.constant(np.float32(0))), one)
    hidden = graph.add("Mul", graph.add("Sub", one, real), graph.constant(np.float32(-1e4)))
    bias = graph.add("Unsqueeze", hidden, graph.constant(np.array([1])))
    at = graph.add("Gather", graph.weight(VOCABULARY, width), "input_ids")
    for _ in range(layers):
        query, key, value = (graph.add("MatMul", at, graph.weight(width, width)) for _ in range(3))
        scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 2, 1]))
        mixed = graph.add("MatMul", graph.add("Softmax", graph.add("Add", scores, bias), axis=-1), value)
        at = graph.add("LayerNormalization", graph.add("Add", at, mixed), ones, zeros, axis=-1)
        wide = graph.add("Relu", graph.add("MatMul", at, graph.weight(width, inner)))
        wide = graph.add("MatMul", wide, graph.weight(inner, width))
        at = graph.add("LayerNormalization", graph.add("Add", at, wide), ones, zeros, axis=-1)
    graph.add("Identity", at, out="tokens")
    if pooling == "last":
        graph.add("Gather", at, graph.constant(np.array(-1)), out="text", axis=1)
    else:
        weights = graph.add("Unsqueeze", real, graph.constant(np.array([2])))
        total = graph.add("ReduceSum", graph.add("Mul", at, weights), graph.constant(np.array([1])), keepdims=0)
        count = graph.add("ReduceSum", real, graph.constant(np.array([1])), keepdims=1)
        graph.add("Div", total, count, out="text")
    return _model(graph, width, dtype)


def _model(graph, width, dtype):
    shape = ["batch", "sequence"]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape),
        helper.make_tensor_value_info("attention_mask", dtype, shape),
    ]
    outputs = [
        helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [*shape, width]),
        helper.make_tensor_value_info("text", TensorProto.FLOAT, ["batch", width]),
    ]
    made = helper.make_graph(graph.nodes, "text", inputs, outputs, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(folder, name, toml, **wanted):
    """Writes a model and its `model.toml` as `folder/name`; returns the path of the model."""
    place = folder / name
    place.mkdir(parents=True)
    onnx.save(text_model(**wanted), place / "model.onnx")
    (place / "model.toml").write_text(toml)
    return place / "model.onnx"
