"""Who may ask what, by the lane and by Flask's routes: the same answers."""

import dataclasses
import json
import os
import shutil

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import pytest

from service.app import create_app
from service.guard import keys
from service.settings import Settings, resolve
from tests.live.server import ROOT

ROWS = {"instances": [[5.1, 3.5, 1.4, 0.2]]}


def key(identity, scopes, models=None, rate=None):
    return keys.make(identity, scopes.split(","), models, rate)


KEYS = {
    "all": key("all", "infer,metadata,metrics,admin"),
    "iris": key("iris-only", "infer,metadata", "ir*"),
    "reads": key("reads", "metadata"),
    "scrapes": key("scrapes", "metrics"),
    "slow": key("slow", "infer,metadata", None, 0.01),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in ("iris", "digits"):
        shutil.copytree(ROOT / "models" / name, folder / name)
        (folder / name / "model.toml").write_text("batching = false\n")
    return folder


@pytest.fixture
def apps(repository):
    """With the lane, and without it."""
    text = "\n".join(line for _, line in KEYS.values())
    made = [create_app(Settings(models=repository, api_keys=text)) for _ in range(2)]
    made[1]._desk = None
    return made


def ask(app, method, path, who=None, field="X-API-Key", **more):
    headers = {"X-Request-Id": "same"}
    if who is not None:
        secret = KEYS[who][0] if who in KEYS else who
        headers[field] = secret if field == "X-API-Key" else f"Bearer {secret}"
    return app.test_client().open(path, method=method, headers=headers, **more)


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        (None, "GET", "/", 200),
        (None, "GET", "/healthz", 200),
        (None, "GET", "/readyz", 200),
        (None, "GET", "/ping", 200),
        (None, "GET", "/v2/health/live", 200),
        (None, "GET", "/v2/health/ready", 200),
        (None, "GET", "/v2", 401),
        (None, "GET", "/v2/models/iris/ready", 401),
        (None, "GET", "/metrics", 401),
        (None, "GET", "/nothing", 401),
        (None, "PUT", "/v2", 401),
        (None, "POST", "/v2/repository/index", 401),
        (None, "POST", "/v1/models/iris/labels/a:predict", 401),
        (None, "POST", "/invocations", 401),
        (None, "POST", "/v1/models/iris:predict", 401),
        (None, "POST", "/v1/models/none:predict", 401),
        (None, "POST", "/v2/models/iris/infer", 401),
        (None, "POST", "/predict/iris", 401),
        ("iris-only.wrong", "POST", "/v1/models/iris:predict", 401),
        ("nobody.wrong", "GET", "/v2", 401),
        ("all", "GET", "/v2", 200),
        ("all", "GET", "/nothing", 404),
        ("all", "PUT", "/v2", 405),
        ("all", "GET", "/metrics", 200),
        ("all", "POST", "/v1/models/iris:predict", 200),
        ("all", "POST", "/v1/models/none:predict", 404),
        ("all", "POST", "/invocations", 400),
        ("iris", "POST", "/v1/models/iris:predict", 200),
        ("iris", "POST", "/predict/iris", 200),
        ("iris", "GET", "/v2/models/iris/ready", 200),
        ("iris", "POST", "/v1/models/digits:predict", 403),
        ("iris", "POST", "/v1/models/none:predict", 403),
        ("iris", "GET", "/v2/models/digits", 403),
        ("iris", "GET", "/metrics", 403),
        ("iris", "POST", "/v2/repository/models/iris/load", 403),
        ("reads", "GET", "/v2/models/iris", 200),
        ("reads", "GET", "/v2/models/iris/ready", 200),
        ("reads", "POST", "/v1/models/iris:predict", 403),
        ("reads", "POST", "/invocations", 403),
        ("scrapes", "GET", "/metrics", 200),
        ("scrapes", "GET", "/v2/models/iris", 403),
        ("all", "POST", "/v2/repository/models/iris/load", 501),
    ],
)
def test_who_may_ask_what(apps, who, method, path, status):
    body = {"json": ROWS} if method == "POST" and "predict" in path else {}
    lane, route = (ask(app, method, path, who, **body) for app in apps)
    assert (lane.status_code, route.status_code) == (status, status), lane.data
    if path != "/metrics":
        assert lane.data == route.data
        assert sorted(lane.headers.items()) == sorted(route.headers.items())
    if status in (401, 403):
        assert lane.headers["Content-Type"] == "application/json"
        assert lane.json["status"] == status
        assert ("WWW-Authenticate" in lane.headers) is (status == 401)
    for secret, _ in KEYS.values():
        assert secret.partition(".")[2] not in lane.get_data(as_text=True) + str(lane.headers)


def test_a_key_may_come_in_either_field_and_ours_is_the_stronger(apps):
    for app in apps:
        assert ask(app, "GET", "/v2", "all", field="Authorization").status_code == 200
        headers = {"Authorization": "Bearer a.proxys", "X-API-Key": KEYS["all"][0]}
        assert app.test_client().get("/v2", headers=headers).status_code == 200
        assert app.test_client().get("/v2", headers={"Authorization": "Basic YTpi"}).status_code == 401


def test_a_key_sees_its_own_models_only(apps):
    app = apps[0]
    assert ask(app, "GET", "/v1/models", "iris").json == {"models": ["iris"]}
    assert ask(app, "GET", "/v1/models", "reads").json == {"models": ["digits", "iris"]}
    assert {row["name"] for row in ask(app, "POST", "/v2/repository/index", "iris").json} == {"iris"}
    assert {row["name"] for row in ask(app, "GET", "/v2/models/stats", "iris").json["model_stats"]} == {"iris"}
    assert "digits" not in ask(app, "POST", "/invocations", "iris").get_data(as_text=True)


def test_the_words_of_a_refusal(apps):
    def words(*asked):
        return ask(apps[0], *asked).json["error"]

    assert words("GET", "/v2").startswith("this needs an API key: send `X-API-Key: <id>.<secret>`")
    # Whether there is such an id isn't told.
    assert words("GET", "/v2", "iris-only.x") == words("GET", "/v2", "nobody.x") == words("GET", "/v2", "x")
    scope = "the API key 'iris-only' is good for infer, metadata; this needs the scope metrics"
    assert words("GET", "/metrics", "iris") == scope
    assert words("GET", "/v2/models/digits", "iris") == "the API key 'iris-only' is not good for the model 'digits'"


def test_a_limit_of_a_key_answers_when_to_ask_again(apps):
    for app in apps:
        assert ask(app, "POST", "/v1/models/iris:predict", "slow", json=ROWS).status_code == 200
        for path in ("/v1/models/iris:predict", "/v2"):
            method = "POST" if "predict" in path else "GET"
            refused = ask(app, method, path, "slow", **({"json": ROWS} if method == "POST" else {}))
            assert refused.status_code == 429
            assert 90 <= int(refused.headers["Retry-After"]) <= 100
            assert refused.json["error"].startswith("the API key 'slow' may ask 0.01 times a second")
        assert ask(app, "GET", "/v2/health/ready").status_code == 200


def test_networks_and_addresses(repository):
    variables = {"PINION_ALLOWED_NETWORKS": "192.0.2.0/24,2001:db8::/32", "PINION_ADDRESS_REQUESTS_PER_S": "0.01"}
    app = create_app(dataclasses.replace(resolve(variables).settings, models=repository))

    def status(remote, path="/v1/models/iris:predict", **headers):
        environ = {"REMOTE_ADDR": remote}
        return app.test_client().post(path, json=ROWS, environ_overrides=environ, headers=headers).status_code

    assert status("198.51.100.1") == 403
    assert status("192.0.2.1") == 200
    assert status("192.0.2.1") == 429
    assert status("192.0.2.2") == 200
    assert status("192.0.2.3", X_Forwarded_For="192.0.2.2") == 200
    app.pinion_trust(["192.0.2.3"])
    assert status("192.0.2.3", X_Forwarded_For="192.0.2.2") == 429
    assert status("192.0.2.3", X_Forwarded_For="198.51.100.1") == 403
    assert app.test_client().get("/readyz", environ_overrides={"REMOTE_ADDR": "198.51.100.1"}).status_code == 200


def test_a_revoked_key_ends_for_heads_that_are_known(repository, tmp_path):
    """A worker calls the same lane again for the same head."""
    path = tmp_path / "keys"
    path.write_text(KEYS["all"][1])
    app = create_app(Settings(models=repository, api_keys_file=path))
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/models/iris:predict", "HTTP_X_API_KEY": KEYS["all"][0]}
    begin = app.pinion_lane(environ)
    body = json.dumps(ROWS).encode()
    assert begin(body, 1).finish()[0] == "200 OK"
    path.write_text("# nobody any more\n")
    app.pinion_fit()
    assert begin(body, 1).finish()[0] == "401 Unauthorized"
    path.write_text("broken")
    app.pinion_fit()
    assert begin(body, 1).finish()[0] == "401 Unauthorized"
    path.write_text(KEYS["all"][1])
    app.pinion_fit()
    assert begin(body, 1).finish()[0] == "200 OK"


def test_keys_that_cannot_be_read_let_nobody_in(repository, tmp_path):
    app = create_app(Settings(models=repository, api_keys_file=tmp_path / "none"))
    refused = ask(app, "GET", "/v2", "all")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert "can't be read" in refused.json["error"]
    assert ask(app, "GET", "/v2/health/ready").status_code == 200


def test_what_another_worker_let_in_isnt_counted_again(apps):
    app = apps[0]
    app.pinion_prepay(on=True)
    statuses = [ask(app, "POST", "/v1/models/iris:predict", "slow", json=ROWS).status_code for _ in range(3)]
    assert statuses == [200, 200, 200]
    app.pinion_prepay(on=False)
    statuses = [ask(app, "POST", "/v1/models/iris:predict", "slow", json=ROWS).status_code for _ in range(2)]
    assert statuses == [200, 429]


def test_changes_are_for_operators(repository, tmp_path):
    settings = Settings(models=repository, operator_bind="127.0.0.1:9100", audit_file=tmp_path / "audit")
    app = create_app(settings)

    def asked(**environ):
        return app.test_client().post("/v2/repository/models/iris/load", environ_overrides=environ)

    place = {"REMOTE_PORT": "1", "SERVER_NAME": "127.0.0.1"}
    assert asked(**place, SERVER_PORT="8000").status_code == 403
    assert asked(SERVER_NAME="127.0.0.1", SERVER_PORT="9100").status_code == 403
    on_it = asked(**place, SERVER_PORT="9100")
    assert (on_it.status_code, on_it.json["error"].startswith("loading and unloading models by request")) == (501, True)
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(line["event"], line["status"], line["model"]) for line in lines] == [
        ("change", 403, "iris"), ("change", 403, "iris"), ("change", 501, "iris")
    ]  # fmt: skip


def test_the_audit_has_every_request_but_health_and_no_secret(repository, tmp_path):
    path = tmp_path / "audit"
    text = "\n".join(line for _, line in KEYS.values())
    app = create_app(Settings(models=repository, api_keys=text, audit_file=path))
    for who, method, where in [
        ("all", "POST", "/v1/models/iris:predict"),
        ("nobody.x", "POST", "/v1/models/iris:predict"),
        ("iris", "POST", "/v1/models/digits:predict"),
        ("reads", "GET", "/v2/models/iris"),
        (None, "GET", "/nothing"),
        (None, "GET", "/v2/health/ready"),
    ]:
        ask(app, method, where, who, **({"json": ROWS} if method == "POST" else {}))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["key"], line["model"], line["status"]) for line in lines] == [
        ("all", "iris", 200), (None, None, 401), ("iris-only", None, 403), ("reads", "iris", 200), (None, None, 401),
    ]  # fmt: skip
    assert lines[0]["client"] == "127.0.0.1"
    assert {line["request_id"] for line in lines} == {"same"}
    for secret, line in KEYS.values():
        assert secret.partition(".")[2] not in path.read_text()
        assert line.split()[1] not in path.read_text()
