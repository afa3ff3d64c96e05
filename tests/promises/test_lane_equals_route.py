"""The direct lane and Flask's routes give the same bytes and leave the same figures."""

import base64
import io
import json
import os
import random
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import pytest

from service.app import create_app
from service.settings import Settings

CASES = Path(__file__).parents[1] / "cases"
MOST_GENERATED = int(os.environ.get("LANE_GENERATED", "2000"))


def requests_of_all_cases():
    for path in sorted(CASES.glob("*/case.json")):
        case = json.loads(path.read_text())
        steps = ([{"request": case["request"]}] if "request" in case else []) + case.get("more", [])
        for step in steps:
            asked = step["request"]
            if "path" in asked and "raw_file" not in asked and "generate" not in asked:
                yield case["model_name"], asked, body_of(asked, path.parent)


def body_of(asked, folder):
    if "json" in asked:
        return json.dumps(asked["json"]).encode()
    if "body_base64" in asked:
        return base64.b64decode(asked["body_base64"])
    if "body_file" in asked:
        return (folder / asked["body_file"]).read_bytes()
    return asked.get("body_text", "").encode()


NEVER = 1 << 40


@pytest.fixture(scope="module", params=[(4096, 4096), (0, NEVER)], ids=["as-shipped", "every-list-by-simdjson"])
def apps(tmp_path_factory, request):
    """The same models behind an open lane and behind Flask alone, with the bytes from which simdjson reads in each."""
    folder = tmp_path_factory.mktemp("models")
    for path in sorted(CASES.glob("*/case.json")):
        case = json.loads(path.read_text())
        target = folder / case["model_name"]
        target.mkdir()
        for source in (path.parent / "model.onnx", path.parent / "weights.bin"):
            if source.exists():
                (target / source.name).write_bytes(source.read_bytes())
        # What is measured at load differs from start to start and is no matter of the lane.
        (target / "model.toml").write_text("batching = false\n")
    lane, route = (create_app(Settings(models=folder, ready="any", fast_json_bytes=size)) for size in request.param)
    route._desk = None
    return lane, route


def ask(app, method, path, body, headers):
    environ = {
        "REQUEST_METHOD": method, "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(), "QUERY_STRING": "",
        "PATH_INFO": path.encode().decode("latin-1"), "CONTENT_LENGTH": str(len(body)), "HTTP_X_REQUEST_ID": "same",
        "HTTP_HOST": "localhost",
    }  # fmt: skip
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    started = []
    answer = app(environ, lambda status, given, exc_info=None: started.append((status, given)))
    data = b"".join(answer)
    status, given = started[0]
    return int(status.split()[0]), sorted(given), data


def same(apps, *request):
    lane, route = (ask(app, *request) for app in apps)
    assert lane == route, request
    return lane[0]


def test_every_request_of_every_case(apps):
    statuses = set()
    for model, asked, body in requests_of_all_cases():
        path = asked["path"].replace("{model}", model)
        statuses.add(same(apps, asked["method"], path, body, asked.get("headers", {})))
    assert {200, 400, 404} <= statuses


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "PUT"])
@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/22-nested-or-flat-data/infer/", "/v2/models//infer", "/v2/models/infer", "/v2/models/a/b/infer",
        "/v2/models/a/versions//infer", "/v2/models/a/versions/1/2/infer", "/v2/models/\u00e9/infer",
        "/v1/models/:predict", "/v1/models/a/versions/1:predict", "/v1/models/22-nested-or-flat-data:predict/",
        "/v2/models/22-nested-or-flat-data/versions/1/infer", "/v2/models/22-nested-or-flat-data/versions/2/infer",
    ],
)  # fmt: skip
def test_odd_paths(apps, method, path):
    same(apps, method, path, b"{}", {"Content-Type": "application/json"})


def test_generated_bodies(apps):
    rng = random.Random(20261201)
    good = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [1, 2.5, -3, 4, 5, 6, 7, 8]}]}'
    rows = b'{"instances": [[1, 2.5, -3, 4], [5, 6, 7, 8]]}'
    for _ in range(MOST_GENERATED):
        body = bytearray(rng.choice((good, rows)))
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            spot = rng.randrange(len(body))
            body[spot : spot + rng.choice((0, 1, 3))] = rng.choice(
                (b"", b"0", b"-", b"]", b"[", b"{", b"NaN", b'"', b"null", b"true", b"1e400", b"\xff", b",", b"e9")
            )
        path = rng.choice(("/v2/models/22-nested-or-flat-data/infer", "/v1/models/22-nested-or-flat-data:predict"))
        same(apps, "POST", path, bytes(body), {"Content-Type": rng.choice(("application/json", "", "text/plain"))})


def figures(app):
    text = ask(app, "GET", "/metrics", b"", {})[2].decode()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("nv_inference") and "duration" not in line
    }


def test_the_same_differences_in_the_metrics(apps):
    bodies = [
        *((model, body) for model, _, body in requests_of_all_cases()),
        (
            "22-nested-or-flat-data",
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}',
        ),
        ("22-nested-or-flat-data", b"{}"),
        ("40-opset-too-new", b"{}"),
        ("nope", b"{}"),
    ]
    changes = []
    for app in apps:
        before = figures(app)
        for model, body in bodies:
            ask(app, "POST", f"/v2/models/{model}/infer", body, {})
        after = figures(app)
        changes.append(
            {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name)}
        )
    assert changes[0] == changes[1]
    assert any("request_success" in name for name in changes[0])
    assert any("request_failure" in name for name in changes[0])
