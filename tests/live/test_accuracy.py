"""The shipped models answer over HTTP as well as their READMEs say."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from itertools import chain
from pathlib import Path

import pytest
import requests

MODELS = Path(__file__).parents[2] / "models"
INPUTS = {"iris": ("features", (4,)), "digits": ("image", (1, 8, 8))}
CONSOLE = re.compile(r"```console\n\$ (.*?)\n(\{[^\n]*\})\n```", re.DOTALL)
COMMANDS = [
    pytest.param(command, answer, id=f"{name}-{index}")
    for name in INPUTS
    for index, (command, answer) in enumerate(CONSOLE.findall((MODELS / name / "README.md").read_text()))
]


def held_out(name):
    """Numbers of each row, and the true labels as text."""
    with (MODELS / name / "heldout.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    return [[float(value) for value in row[:-1]] for row in rows], [row[-1] for row in rows]


def stated(name):
    """Correct answers and rows as the README has them."""
    found = re.search(r"held-out part \| (\d+) of (\d+) \(([\d.]+)\)", (MODELS / name / "README.md").read_text())
    correct, total = int(found[1]), int(found[2])
    assert found[3] == f"{correct / total:.4f}"
    return correct, total


def shaped(values, shape):
    """A flat list nested as the shape says."""
    if len(shape) == 1:
        return values
    step = len(values) // shape[0]
    return [shaped(values[start : start + step], shape[1:]) for start in range(0, len(values), step)]


def post(url, document):
    """The answer's document; the status must be 200."""
    reply = requests.post(url, json=document, timeout=30)
    assert reply.status_code == 200, reply.text
    return reply.json()


def v1_labels(url, name, rows):
    _, shape = INPUTS[name]
    instances = [shaped(row, shape) for row in rows]
    answer = post(f"{url}/v1/models/{name}:predict", {"instances": instances})
    return [str(row["label"]) for row in answer["predictions"]]


def v2_labels(url, name, rows):
    tensor, shape = INPUTS[name]
    given = {"name": tensor, "datatype": "FP32", "shape": [len(rows), *shape], "data": list(chain.from_iterable(rows))}
    answer = post(f"{url}/v2/models/{name}/infer", {"inputs": [given], "outputs": [{"name": "label"}]})
    return [str(label) for label in answer["outputs"][0]["data"]]


@pytest.mark.parametrize("labels", [v1_labels, v2_labels])
@pytest.mark.parametrize("name", INPUTS)
def test_accuracy_over_http_is_the_readmes(server, name, labels):
    rows, truth = held_out(name)
    answered = labels(server.url, name, rows)
    correct = sum(label == true for label, true in zip(answered, truth, strict=True))
    assert (correct, len(rows)) == stated(name)


@pytest.mark.parametrize("name", INPUTS)
def test_a_row_alone_gets_the_label_it_gets_among_others(server, name):
    rows = held_out(name)[0][:20]
    alone = [v2_labels(server.url, name, [row])[0] for row in rows]
    assert alone == v2_labels(server.url, name, rows)


def test_probabilities_in_v2_carry_the_names_of_the_species(server):
    given = {"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}
    answer = post(f"{server.url}/v2/models/iris/infer", {"inputs": [given]})
    (scores,) = (output for output in answer["outputs"] if output["name"] == "probabilities")
    assert (scores["datatype"], scores["shape"]) == ("FP32", [1, 3])
    assert scores["parameters"]["labels"] == ["setosa", "versicolor", "virginica"]
    assert sum(scores["data"]) == pytest.approx(1, abs=1e-6)


def approximate(answer):
    """An answer whose fractions may differ in the last digits, as they do between processors."""
    if isinstance(answer, dict):
        return {key: approximate(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [approximate(value) for value in answer]
    return pytest.approx(answer, rel=1e-3, abs=1e-6) if isinstance(answer, float) else answer


@pytest.mark.parametrize(("command", "answer"), COMMANDS)
def test_curl_lines_of_the_readmes_give_the_shown_answer(server, command, answer):
    address = server.url.removeprefix("http://")
    here = command.replace("localhost:8000", address).replace("curl -s", "curl -s --fail-with-body")
    shown = subprocess.run(["bash", "-c", here], check=True, capture_output=True, text=True, timeout=30).stdout
    assert json.loads(shown) == approximate(json.loads(answer))


def test_every_readme_has_curl_lines():
    assert len(COMMANDS) == 4
