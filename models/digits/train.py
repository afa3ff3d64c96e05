"""Trains the digits example and writes `1/model.onnx` and `heldout.csv`: the same bytes on every run.

    python models/digits/train.py [folder]

The network is a layer of twelve fixed stroke detectors and one trained layer. The detectors are whole numbers,
the fit has one optimum and its weights are rounded to four decimals, so that the last bits, in which processors
and linear algebra libraries differ, don't reach the file.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

SIZE = 8
CLASSES = 10
HELD_OUT_ROWS = 450
SEED = 0
DECIMALS = 4
INVERSE_PENALTY = 10.0
OPSET = 18
IR_VERSION = 8
RESPONSE_SCALE = 256.0
ABOUT = {
    "producer_name": "models/digits/train.py",
    "producer_version": "1",
    "doc_string": "Handwritten digit from an image of 8 by 8 pixels, 0 (paper) to 16 (ink).",
}
PROPERTIES = {
    "data": "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, "
    "https://doi.org/10.24432/C50P49, CC BY 4.0",
    "license": "Apache-2.0",
}

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]


def split() -> tuple[Images, Images, Labels, Labels]:
    """The images (rows, 1, 8, 8) to train on and those held out, then the digits (rows,) of both."""
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, np.newaxis]
    labels = digits.target.astype(np.int64)
    parts: tuple[Images, Images, Labels, Labels] = tuple(
        train_test_split(images, labels, test_size=HELD_OUT_ROWS, stratify=labels, random_state=SEED)
    )
    return parts


def stroke_kernels() -> Weights:
    """Eight edge and four line detectors, each the one before turned by 45 degrees, shape (12, 1, 3, 3)."""
    edges = [turned((1, 2, 1, 0, -1, -2, -1, 0), 0, turn) for turn in range(8)]
    lines = [turned((2, -1, -1, -1, 2, -1, -1, -1), 2, turn) for turn in range(4)]
    return np.array([[kernel] for kernel in edges + lines], np.float32)


def turned(ring: tuple[int, ...], middle: int, turn: int) -> list[list[int]]:
    """A 3 by 3 kernel from the eight values around its middle, turned clockwise by `turn` places."""
    values = [ring[(place - turn) % len(ring)] for place in range(len(ring))]
    return [values[0:3], [values[7], middle, values[3]], [values[6], values[5], values[4]]]


def strokes(images: Images) -> npt.NDArray[np.float64]:
    """What the fixed layer sees in images (rows, 1, 8, 8): shape (rows, 192)."""
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    response = np.einsum("nhwij,cij->nchw", windows, stroke_kernels()[:, 0]).clip(min=0)
    rows, channels, height, width = response.shape
    pooled = response.reshape(rows, channels, height // 2, 2, width // 2, 2).sum(axis=(3, 5))
    scaled: npt.NDArray[np.float64] = pooled.reshape(rows, -1).astype(np.float64) / RESPONSE_SCALE
    return scaled


def fit(images: Images, labels: Labels) -> LogisticRegression:
    """A logistic regression on the strokes, with rounded weights."""
    regression = LogisticRegression(C=INVERSE_PENALTY, solver="newton-cholesky", tol=1e-10)
    regression.fit(strokes(images), labels)
    regression.coef_ = regression.coef_.round(DECIMALS)
    regression.intercept_ = regression.intercept_.round(DECIMALS)
    return regression


def layers() -> list[onnx.NodeProto]:
    """The network from `image` to both outputs; every row is computed from itself alone."""
    return [
        helper.make_node("Conv", ["image", "kernels"], ["responses"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["responses"], ["strokes"]),
        helper.make_node("AveragePool", ["strokes"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["row"]),
        helper.make_node("Gemm", ["row", "coefficients", "intercepts"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]


def build(regression: LogisticRegression) -> onnx.ModelProto:
    """The layers with their weights as an ONNX model."""
    # A mean over four pixels in the graph is a quarter of the sum over them in `strokes`.
    weights = {
        "kernels": stroke_kernels(),
        "coefficients": (regression.coef_.T * 4 / RESPONSE_SCALE).astype(np.float32),
        "intercepts": regression.intercept_.astype(np.float32),
    }
    graph = helper.make_graph(
        layers(),
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIZE, SIZE])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES]),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return described(graph)


def described(graph: onnx.GraphProto) -> onnx.ModelProto:
    """A checked model that says what it is and where it comes from."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, **ABOUT)
    helper.set_model_props(model, PROPERTIES)
    onnx.checker.check_model(model, full_check=True)
    return model


def write_held_out(path: Path, images: Images, labels: Labels) -> None:
    """One line an image: 64 pixels row by row, then the digit; a header names the columns."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*(f"pixel_{row}_{column}" for row in range(SIZE) for column in range(SIZE)), "digit"))
        for image, label in zip(images, labels, strict=True):
            writer.writerow((*image.astype(int).ravel().tolist(), int(label)))


def main(folder: Path) -> None:
    """Trains, writes both files below the folder and prints the accuracy on the held-out part."""
    train, held_out, train_labels, held_out_labels = split()
    regression = fit(train, train_labels)
    target = folder / "1" / "model.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(build(regression).SerializeToString(deterministic=True))
    write_held_out(folder / "heldout.csv", held_out, held_out_labels)
    correct = int((regression.predict(strokes(held_out)) == held_out_labels).sum())
    print(f"{correct} of {len(held_out)} held-out images: {correct / len(held_out):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
