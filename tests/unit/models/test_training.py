"""The shipped example models are what their scripts make, on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

MODELS = Path(__file__).parents[3] / "models"
FILES = ("1/model.onnx", "heldout.csv")
# OpenBLAS and numpy choose their code by the processor: these choose for other processors.
MACHINES = {
    "this machine": {},
    "an old processor": {"OPENBLAS_CORETYPE": "Prescott", "PYTHONHASHSEED": "1"},
    "one thread": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "2"},
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_training_again_gives_the_shipped_files_byte_for_byte(name, machine, tmp_path):
    script = MODELS / name / "train.py"
    environ = os.environ | MACHINES[machine]
    subprocess.run([sys.executable, "-W", "error", script, tmp_path], check=True, env=environ)
    for file in FILES:
        assert (tmp_path / file).read_bytes() == (MODELS / name / file).read_bytes(), file


@pytest.mark.parametrize("name", ["iris", "digits"])
def test_training_prints_the_accuracy_that_the_readme_states(name, tmp_path):
    command = [sys.executable, MODELS / name / "train.py", tmp_path]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    correct, _, total, *_, share = printed.split()
    row = f"| accuracy on the held-out part | {correct} of {total} ({share})"
    assert row in (MODELS / name / "README.md").read_text()


@pytest.mark.parametrize("name", ["iris", "digits"])
def test_model_file_says_its_source_and_licence(name):
    model = onnx.load(MODELS / name / "1" / "model.onnx")
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert model.producer_name == f"models/{name}/train.py"
    assert model.doc_string
    assert properties["license"] == "Apache-2.0"
    assert "CC BY 4.0" in properties["data"]


@pytest.mark.parametrize("name", ["iris", "digits"])
def test_model_has_a_free_batch_axis_and_stays_small(name):
    path = MODELS / name / "1" / "model.onnx"
    (given,) = onnx.load(path).graph.input
    assert given.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert path.stat().st_size < 300_000
