"""Trains the iris example and writes `1/model.onnx` and `heldout.csv`: the same bytes on every run.

    python models/iris/train.py [folder]

The fit has one optimum and its weights are rounded to four decimals, so that the last bits, in which
processors and linear algebra libraries differ, don't reach the file.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

COLUMNS = ("sepal_length_cm", "sepal_width_cm", "petal_length_cm", "petal_width_cm")
HELD_OUT_ROWS = 50
SEED = 0
DECIMALS = 4
OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8
ABOUT = {
    "producer_name": "models/iris/train.py",
    "producer_version": "1",
    "doc_string": "Species of an iris from four lengths in cm: standardized, then logistic regression.",
}
PROPERTIES = {
    "data": "Iris, R. A. Fisher, https://doi.org/10.24432/C56C76, CC BY 4.0",
    "license": "Apache-2.0",
}

Features = npt.NDArray[np.float32]
Species = npt.NDArray[np.str_]


def split() -> tuple[Features, Features, Species, Species]:
    """The features (rows, 4) to train on and those held out, then the species (rows,) of both."""
    iris = load_iris()
    features = iris.data.astype(np.float32)
    species = iris.target_names[iris.target].astype(str)
    parts: tuple[Features, Features, Species, Species] = tuple(
        train_test_split(features, species, test_size=HELD_OUT_ROWS, stratify=species, random_state=SEED)
    )
    return parts


def fit(features: Features, species: Species) -> Pipeline:
    """A scaler and a logistic regression with rounded weights."""
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-10))
    pipeline.fit(features.astype(np.float64), species)
    scaler, regression = pipeline[0], pipeline[-1]
    for step, name in ((scaler, "mean_"), (scaler, "scale_"), (regression, "coef_"), (regression, "intercept_")):
        setattr(step, name, getattr(step, name).round(DECIMALS))
    return pipeline


def convert(pipeline: Pipeline) -> onnx.ModelProto:
    """The pipeline as ONNX: a label and a map from species to probability for each row."""
    model: onnx.ModelProto = convert_sklearn(
        pipeline,
        name="iris",
        initial_types=[("features", FloatTensorType([None, len(COLUMNS)]))],
        target_opset=OPSETS,
    )
    rename(model.graph, {"output_label": "label", "output_probability": "probabilities"})
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    for name, text in ABOUT.items():
        setattr(model, name, text)
    model.ir_version = IR_VERSION
    # The converter writes them in the order of a set, which changes from run to run.
    model.opset_import.sort(key=lambda opset: opset.domain)
    onnx.helper.set_model_props(model, PROPERTIES)
    onnx.checker.check_model(model, full_check=True)
    return model


def rename(graph: onnx.GraphProto, outputs: Mapping[str, str]) -> None:
    """Gives outputs of the graph other names; an inner value that has such a name gets the old one."""
    names = {**outputs, **{new: old for old, new in outputs.items()}}
    for output in graph.output:
        output.name = names[output.name]
    for node in graph.node:
        node.output[:] = [names.get(name, name) for name in node.output]
        node.input[:] = [names.get(name, name) for name in node.input]


def write_held_out(path: Path, features: Features, species: Species) -> None:
    """One line a flower: the features, then the species; a header names the columns."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*COLUMNS, "species"))
        for row, name in zip(features, species, strict=True):
            writer.writerow((*(f"{value:.1f}" for value in row), name))


def main(folder: Path) -> None:
    """Trains, writes both files below the folder and prints the accuracy on the held-out part."""
    train, held_out, train_species, held_out_species = split()
    pipeline = fit(train, train_species)
    target = folder / "1" / "model.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(convert(pipeline).SerializeToString(deterministic=True))
    write_held_out(folder / "heldout.csv", held_out, held_out_species)
    correct = int((pipeline.predict(held_out) == held_out_species).sum())
    print(f"{correct} of {len(held_out)} held-out flowers: {correct / len(held_out):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
