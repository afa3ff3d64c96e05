"""Every route that isn't an inference, by Flask's client and the shipped models."""

import gzip
import os
import shutil
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import pytest

from service.app import create_app
from service.settings import Settings

MODELS = Path(__file__).parents[3] / "models"
ROW = {"instances": [[5.1, 3.5, 1.4, 0.2]]}


def client_of(models=MODELS, **settings):
    return create_app(Settings(models=models, **settings)).test_client()


@pytest.fixture(scope="module")
def client():
    return client_of()


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """One good model with two versions and one that can't be read."""
    folder = tmp_path_factory.mktemp("broken")
    for version in ("1", "2"):
        (folder / "good" / version).mkdir(parents=True)
        shutil.copy(MODELS / "iris" / "1" / "model.onnx", folder / "good" / version)
    (folder / "bad.onnx").write_bytes(b"no model")
    return folder


@pytest.mark.parametrize("path", ["/v2/health/live", "/healthz", "/v2/health/live/"])
def test_liveness(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.json) == (200, {"live": True})


@pytest.mark.parametrize("path", ["/v2/health/ready", "/readyz", "/ping"])
def test_readiness(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.json) == (200, {"ready": True})


def test_the_door(client):
    assert client.get("/").json == {"status": "alive"}
    server = client.get("/v2").json
    assert server["name"] == "pinion"
    assert server["extensions"] == [
        "binary_tensor_data", "classification", "model_configuration", "model_repository", "parameters", "statistics",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/v2/models/iris", "/v2/models/iris/versions/1"])
def test_model_metadata(client, path):
    metadata = client.get(path).json
    assert metadata["platform"] == "onnx_onnxv1"
    assert metadata["versions"] == ["1"]
    assert metadata["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 4]}]
    assert metadata["outputs"][1] == {"name": "probabilities", "datatype": "FP32", "shape": [-1, -1]}
    assert metadata["properties"]["execution_providers"] == "CPUExecutionProvider"
    assert metadata["properties"]["batching"].startswith(("merged", "not merged"))


def test_model_configuration(client):
    config = client.get("/v2/models/iris/config").json
    assert config["backend"] == "onnxruntime"
    assert config["input"] == [{"name": "features", "data_type": "TYPE_FP32", "dims": [4]}]
    assert client.get("/v2/models/iris/versions/1/config").json == config


def test_model_readiness(client):
    expected = {"name": "iris", "ready": True}
    for path in ("/v2/models/iris/ready", "/v2/models/iris/versions/1/ready"):
        assert client.get(path).json == expected
    assert client.get("/v2/models/none/ready").status_code == 404
    assert client.get("/v2/models/iris/versions/9/ready").status_code == 404


def test_statistics_count_what_was_asked(client):
    before = client.get("/v2/models/iris/stats").json["model_stats"][0]["inference_count"]
    assert client.post("/v1/models/iris:predict", json={"instances": ROW["instances"] * 3}).status_code == 200
    entry = client.get("/v2/models/iris/versions/1/stats").json["model_stats"][0]
    assert entry["inference_count"] == before + 3
    names = {entry["name"] for entry in client.get("/v2/models/stats").json["model_stats"]}
    assert names == {"iris", "digits"}
    assert client.get("/v2/models/none/stats").status_code == 404


def test_index_of_a_repository_with_a_broken_model(broken):
    client = client_of(broken)
    rows = {(row["name"], row["version"]): row for row in client.post("/v2/repository/index").json}
    assert rows["good", "2"]["state"] == "READY"
    assert rows["bad", "1"]["state"] == "UNAVAILABLE"
    assert "no ONNX model" in rows["bad", "1"]["reason"]
    ready = client.post("/v2/repository/index", json={"ready": True}).json
    assert {row["name"] for row in ready} == {"good"}


def test_readiness_rules(broken, tmp_path):
    unready = client_of(broken).get("/v2/health/ready")
    assert unready.status_code == 503
    assert unready.json["ready"] is False
    assert "model 'bad'" in unready.json["error"]
    assert client_of(broken, ready="any").get("/v2/health/ready").status_code == 200
    assert client_of(broken, ready="good").get("/v2/health/ready").status_code == 200
    missing = client_of(broken, ready="good, other").get("/v2/health/ready")
    assert missing.json["reasons"] == ["model 'other' is not in the repository"]
    assert client_of(tmp_path).get("/v2/health/ready").status_code == 200
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    nobody = client_of(tmp_path, ready="any").get("/v2/health/ready")
    assert nobody.json["reasons"][0] == "no model is ready"


def test_a_model_that_is_not_ready_says_why_everywhere(broken):
    client = client_of(broken)
    for answer in (
        client.post("/v2/models/bad/infer", json={}),
        client.get("/v2/models/bad"),
        client.get("/v2/models/bad/ready"),
        client.get("/v1/models/bad"),
        client.post("/v1/models/bad:predict", json=ROW),
    ):
        assert answer.status_code == 503
        assert "no ONNX model" in answer.json["error"]


def test_versions(broken):
    client = client_of(broken)
    assert client.post("/v1/models/good/versions/1:predict", json=ROW).status_code == 200
    assert client.get("/v2/models/good").json["properties"]["version"] == "2"
    unknown = client.post("/v2/models/good/versions/3/infer", json={})
    assert unknown.status_code == 404
    assert "it has 1, 2" in unknown.json["error"]


def test_v1_status_and_metadata(broken):
    client = client_of(broken)
    status = client.get("/v1/models/good").json
    assert status["ready"] is True
    assert [row["version"] for row in status["model_version_status"]] == ["2", "1"]
    assert status["model_version_status"][0]["state"] == "AVAILABLE"
    bad = client.get("/v1/models/bad").json
    assert bad["model_version_status"][0]["status"]["error_code"] == "UNKNOWN"
    assert client.get("/v1/models/good/versions/1").json["model_version_status"][0]["version"] == "1"
    assert client.get("/v1/models").json == {"models": ["bad", "good"]}
    metadata = client.get("/v1/models/good/metadata").json
    assert metadata["model_spec"] == {"name": "good", "signature_name": "", "version": "2"}
    for path in ("/v1/models/none", "/v1/models/good/versions/9"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("post", "/v2/repository/models/iris/load", "loading"),
        ("post", "/v2/repository/models/iris/unload", "loading"),
        ("post", "/v2/repository/other/index", "named repositories"),
        ("get", "/v2/trace/setting", "trace"),
        ("post", "/v2/models/iris/trace/setting", "trace"),
        ("get", "/v2/logging", "PINION_LOG_LEVEL"),
        ("get", "/v2/systemsharedmemory/status", "shared memory"),
        ("post", "/v2/cudasharedmemory/region/a/register", "shared memory"),
        ("post", "/v2/models/iris/generate", "generate"),
        ("post", "/v2/models/iris/versions/1/generate_stream", "generate"),
        ("post", "/v1/models/iris:classify", ":classify is not offered"),
        ("post", "/v1/models/iris/versions/1:regress", ":regress"),
        ("get", "/v1/models/iris/labels/stable", "labels"),
        ("post", "/v1/models/iris/labels/stable:predict", "labels"),
    ],
)
def test_what_is_not_offered_is_a_501_that_says_so(client, method, path, words):
    answer = getattr(client, method)(path)
    assert answer.status_code == 501
    assert words in answer.json["error"]
    assert answer.content_type == "application/json"


def test_wrong_routes_and_verbs_are_json(client):
    lost = client.get("/v3", headers={"X-Request-Id": "lost"})
    assert (lost.status_code, lost.json["type"]) == (404, "/problems/unknown-route")
    assert lost.headers["X-Request-Id"] == "lost"
    for path in ("/v2/models/iris/infer", "/v1/models/iris:predict", "/invocations"):
        wrong = client.get(path)
        assert wrong.status_code == 405
        assert "POST" in wrong.headers["Allow"]
        assert "not GET" in wrong.json["error"]


def test_requests_that_name_no_model(broken, client):
    several = client.post("/invocations", json=ROW)
    assert several.status_code == 400
    assert "digits, iris" in several.json["error"]
    configured = client_of(default_model="iris", predict_route="/vertex", health_route="/well")
    for path in ("/invocations", "/vertex", "/predict/iris"):
        assert configured.post(path, json=ROW).json["predictions"][0]["label"] == "setosa"
    assert configured.get("/well").json == {"ready": True}


def test_csv_in_and_out(client):
    def post(body, **headers):
        return client.post("/v1/models/iris:predict", data=body, headers={"Content-Type": "text/csv", **headers})

    rows = post("5.1,3.5,1.4,0.2\n6.7,3.0,5.2,2.3\n")
    assert rows.content_type == "text/csv; charset=utf-8"
    assert [line.split(",")[0] for line in rows.text.splitlines()] == ["setosa", "virginica"]
    assert post("5.1,3.5,1.4,0.2", Accept="application/json").json["predictions"][0]["label"] == "setosa"
    assert post("5.1,3.5,1.4,0.2", Accept="application/json, text/csv").content_type.startswith("text/csv")
    wrong = post("5.1,x,1.4,0.2")
    assert wrong.status_code == 400
    assert "value 2" in wrong.json["error"]


def test_images_and_forms(client):
    refused = client.post("/v1/models/iris:predict", data=b"\x89PNG", headers={"Content-Type": "image/png"})
    assert refused.status_code == 415
    form = client.post("/v1/models/iris:predict", data={"a": "b"}, content_type="multipart/form-data")
    assert form.status_code == 415
    assert "multipart" in form.json["error"]


def test_answers_are_compressed_when_asked_and_worth_it(client):
    many = {"instances": ROW["instances"] * 50}
    plain = client.post("/v1/models/iris:predict", json=many)
    packed = client.post("/v1/models/iris:predict", json=many, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.data) == plain.data
    small = client.post("/v1/models/iris:predict", json=ROW, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in small.headers


def test_a_fault_of_ours_is_a_500_without_its_insides(client, monkeypatch):
    def broken_read(*_):
        raise ZeroDivisionError("secret insides")

    monkeypatch.setattr("service.web.intake.read_body", broken_read)
    for path in ("/v2/models/iris/infer", "/v2/repository/index"):
        answer = client.post(path, json={})
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert answer.json["type"] == "/problems/internal-error"


def test_an_answer_that_nobody_asks_for_gives_up_its_place():
    app = create_app(Settings(models=MODELS))
    body = b'{"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
    base = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v2/models/iris/infer", "pinion.body": body}
    gone = app.wsgi_app(dict(base), lambda *_: None)
    gone.close()
    started = []
    answer = app.wsgi_app(dict(base), lambda status, headers: started.append(status))
    assert b'"model_name":"iris"' in next(answer)
    assert started == ["200 OK"]
    assert list(answer) == []
