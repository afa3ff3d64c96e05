"""Execution providers over HTTP: one that isn't there, one that is named wrongly, and a real second one, OpenVINO."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import requests

from tests.live.processes import CASE_MODEL, data_of, infer, repository
from tests.live.server import ROOT, Server

CPU, CUDA, OPENVINO = "CPUExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider"
THERE = ", ".join(onnxruntime.get_available_providers())
ABSENT = (
    f"execution provider {CUDA} is not in this ONNX Runtime, which has {THERE}; install the package onnxruntime-gpu"
)
IRIS = ROOT / "models" / "iris" / "1" / "model.onnx"

pytestmark = pytest.mark.skipif(CUDA in THERE, reason="needs an ONNX Runtime without CUDA, as requirements.txt has it")


def expected():
    session = onnxruntime.InferenceSession(CASE_MODEL, providers=[CPU])
    return session.run(None, {"x": np.full((1, 64), 0.01, np.float32)})[0][0]


def reasons(server):
    """State and reason of each model in the index."""
    rows = json.loads(server.post("/v2/repository/index", {})[2])
    return {row["name"]: (row["state"], row["reason"]) for row in rows}


def properties(server, name):
    return server.json(f"/v2/models/{name}")["properties"]


@pytest.fixture(scope="module")
def lacking(tmp_path_factory):
    """A service on this machine's package, with models that ask for more, and one that doesn't."""
    folder = tmp_path_factory.mktemp("lacking")
    models = folder / "models"
    for name, toml in {
        "plain": "",
        "cuda": f'providers = ["{CUDA}"]',
        "cuda_or_cpu": 'providers = ["cuda", "cpu"]',
        "many": 'providers = ["tensorrt", "cuda", "openvino", "cpu"]',
        "next": f'providers = ["{CUDA}", "{CPU}"]\non_missing_provider = "next"',
        "next_of_none": 'providers = ["cuda"]\non_missing_provider = "next"',
        "typo": '# On the graphics card.\nproviders = ["CUDAExecutionProvder", "cpu"]',
        "short_typo": 'providers = [{name = "cudda"}]',
        "guess": 'providers = ["gpu"]',
    }.items():
        repository(models, CASE_MODEL, name, toml)
    with Server(folder, models=models, wait="/v2/health/live") as server:
        yield server


@pytest.mark.parametrize("name", ["cuda", "cuda_or_cpu"])
def test_a_model_whose_provider_is_not_there_is_not_loaded_and_says_what_to_do(lacking, name):
    state, reason = reasons(lacking)[name]
    assert state == "UNAVAILABLE"
    assert reason == (
        f"{ABSENT} in place of onnxruntime, take it out of `providers`, or set on_missing_provider = "
        '"next" to go on with the next in the list'
    )
    assert f"model {name} version 1 can't be served: {ABSENT}" in lacking.log()
    for answer in (requests.get(f"{lacking.url}/v2/models/{name}/ready"), infer(lacking.url, [1, 64], name)):
        assert answer.status_code == 503
        assert ABSENT in answer.json()["error"]


def test_all_that_are_missing_are_named(lacking):
    reason = reasons(lacking)["many"][1]
    assert reason.startswith(f"execution provider TensorrtExecutionProvider, {CUDA}, {OPENVINO} is not in this")
    assert "install the package onnxruntime-gpu or onnxruntime-openvino in place of" in reason


def test_the_service_is_not_ready_and_the_other_models_serve(lacking):
    answer = requests.get(f"{lacking.url}/v2/health/ready")
    assert answer.status_code == 503
    assert f"model 'cuda': {ABSENT}" in " ".join(answer.json()["reasons"])
    assert lacking.status("/v2/models/plain/ready") == 200
    np.testing.assert_allclose(data_of(infer(lacking.url, [1, 64], "plain")), expected(), rtol=1e-5)
    assert reasons(lacking)["plain"] == ("READY", "")


def test_the_next_in_the_list_serves_where_that_is_allowed_and_says_so(lacking):
    note = f"{ABSENT} in place of onnxruntime; until then the model goes on with the next in `providers`"
    np.testing.assert_allclose(data_of(infer(lacking.url, [1, 64], "next")), expected(), rtol=1e-5)
    assert lacking.status("/v2/models/next/ready") == 200
    assert properties(lacking, "next")["execution_providers"] == CPU
    assert properties(lacking, "next")["notes"] == note
    assert f"[WARNING] model next version 1: {note}" in lacking.log()
    assert "model next version 1 is ready" in lacking.log()
    assert properties(lacking, "plain")["notes"] == ""


def test_a_list_without_a_provider_that_is_there_serves_nothing(lacking):
    state, reason = reasons(lacking)["next_of_none"]
    assert state == "UNAVAILABLE"
    assert reason == f"{ABSENT} in place of onnxruntime, add one that is there to `providers`"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "typo",
            "model.toml:2: `providers`: expected an execution provider (did you mean `CUDAExecutionProvider`?), got",
        ),
        (
            "short_typo",
            "model.toml:1: `providers.name`: expected an execution provider (did you mean `cuda`?), got 'cudda'",
        ),
        ("guess", "model.toml:1: `providers`: expected one of acl, cann, coreml, cpu, cuda, dml, dnnl, "),
    ],
)
def test_a_name_that_is_no_provider_gets_its_line_and_a_hint(lacking, name, reason):
    state, told = reasons(lacking)[name]
    assert state == "UNAVAILABLE"
    assert told.startswith(reason)
    assert lacking.status(f"/v2/models/{name}/ready") == 503


def test_the_service_may_allow_the_next_for_all_models(tmp_path):
    repository(tmp_path / "models", CASE_MODEL, "m", 'providers = ["cuda", "cpu"]')
    with Server(tmp_path, models=tmp_path / "models", pinion_on_missing_provider="next") as server:
        assert properties(server, "m")["execution_providers"] == CPU
        np.testing.assert_allclose(data_of(infer(server.url, [1, 64])), expected(), rtol=1e-5)


@pytest.fixture(scope="module")
def python():
    """Of the environment with OpenVINO."""
    found = ROOT / ".venv-openvino" / "bin" / "python"
    if not found.exists():
        pytest.skip(f"{found} is missing: script/clients makes it")
    done = subprocess.run([found, "-c", "import onnxruntime"], capture_output=True, text=True, check=False)
    if done.returncode:
        version = sys.version.split()[0]
        pytest.skip(f"no onnxruntime-openvino in {found} (has it a wheel for Python {version} here?): {done.stderr}")
    return found


@pytest.fixture(scope="module")
def openvino(tmp_path_factory, python):
    """A service on OpenVINO's package."""
    folder = tmp_path_factory.mktemp("openvino")
    models = folder / "models"
    gpu = '{name = "openvino", options = {device_type = "GPU"}}'
    for name, (model, toml) in {
        "both": (CASE_MODEL, f'providers = ["{OPENVINO}", "{CPU}"]'),
        "alone": (CASE_MODEL, 'providers = ["openvino"]'),
        "cpu": (CASE_MODEL, ""),
        "trees": (IRIS, 'providers = ["openvino", "cpu"]'),
        "trees_alone": (IRIS, 'providers = ["openvino"]'),
        "no_device": (CASE_MODEL, f'providers = [{gpu}, "cpu"]'),
        "next_device": (CASE_MODEL, f'providers = [{gpu}, "cpu"]\non_missing_provider = "next"'),
        "cuda": (CASE_MODEL, 'providers = ["cuda", "openvino", "cpu"]'),
        "next": (CASE_MODEL, 'providers = ["cuda", "openvino", "cpu"]\non_missing_provider = "next"'),
    }.items():
        repository(models, model, name, toml)
    with Server(folder, models=models, wait="/v2/health/live", python=python) as server:
        yield server


@pytest.mark.parametrize("name", ["both", "alone", "next"])
def test_a_model_runs_on_openvino(openvino, name):
    np.testing.assert_allclose(data_of(infer(openvino.url, [1, 64], name)), expected(), rtol=1e-3, atol=1e-5)
    shown = properties(openvino, name)
    assert shown["execution_providers"] == f"{OPENVINO},{CPU}"
    # Not only loaded: every node of the graph is OpenVINO's.
    (provider, nodes), *others = [part.split(":") for part in shown["nodes_by_provider"].split(",")]
    assert (provider, int(nodes) > 0, others) == (OPENVINO, True, [])
    assert f"model {name} version 1 is ready" in openvino.log()


def test_openvino_is_in_the_process_that_answers(openvino):
    (worker,) = openvino.workers()
    assert "libopenvino" in Path(f"/proc/{worker}/maps").read_text()


def test_a_model_that_asks_for_nothing_stays_on_the_cpu(openvino):
    assert properties(openvino, "cpu")["execution_providers"] == CPU
    assert properties(openvino, "cpu")["nodes_by_provider"] == ""


def test_a_provider_that_takes_no_node_is_told(openvino):
    shown = properties(openvino, "trees")
    assert shown["nodes_by_provider"].startswith(f"{CPU}:")
    assert shown["notes"] == f"{OPENVINO} takes none of the model's nodes: it runs on {CPU}"
    state, reason = reasons(openvino)["trees_alone"]
    assert state == "UNAVAILABLE"
    assert reason.endswith('end `providers` with "cpu" to run those nodes on the CPU')


def test_a_provider_that_cannot_start_is_no_silent_fallback(openvino):
    failed = f"execution provider {OPENVINO} could not start; check its options, its driver and libraries"
    state, reason = reasons(openvino)["no_device"]
    assert state == "UNAVAILABLE"
    assert reason.startswith(failed)
    assert properties(openvino, "next_device")["execution_providers"] == CPU
    rest = " (ONNX Runtime wrote its reason to the log); until then the model goes on with the next in `providers`"
    assert properties(openvino, "next_device")["notes"] == failed + rest
    assert "Device GPU is not available" in openvino.log()
    np.testing.assert_allclose(data_of(infer(openvino.url, [1, 64], "next_device")), expected(), rtol=1e-5)


def test_what_is_missing_there_is_cuda(openvino):
    state, reason = reasons(openvino)["cuda"]
    assert state == "UNAVAILABLE"
    assert f"{CUDA} is not in this ONNX Runtime, which has {OPENVINO}, {CPU}; install" in reason
    assert properties(openvino, "next")["notes"].startswith(f"execution provider {CUDA} is not in")


def test_the_environment_differs_only_in_the_runtime():
    ours, theirs = (
        [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
        for name in ("requirements.txt", "tests/clients/openvino-requirements.txt")
    )
    assert len(ours) == len(theirs)
    different = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    assert [(one.partition("=")[0], other.partition("=")[0]) for one, other in different] == [
        ("onnxruntime", "onnxruntime-openvino")
    ]
