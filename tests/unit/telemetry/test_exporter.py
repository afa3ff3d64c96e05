"""`/metrics`: Triton's names, HTTP metrics of bounded number, one process or several."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from service.telemetry import exporter
from service.telemetry.journal import Journal
from service.telemetry.record import Recorder
from tests.unit.telemetry.outcomes import SUCCESS

ROOT = Path(__file__).parents[3]


def application():
    app = Flask("test")
    app.url_map.strict_slashes = False
    exporter.install(app, ["/my/predict"])
    for rule in ("/v2/models/<name>", "/v2/health/ready", "/ping"):
        app.add_url_rule(rule, rule, lambda **_: "ok")
    for rule in ("/v2/models/<name>/infer", "/v1/models/<name>:predict", "/predict/<name>", "/my/predict"):
        app.add_url_rule(rule, rule, lambda **_: "ok", methods=["POST"])
    return app.test_client()


@pytest.fixture
def client():
    return application()


def page(client, query=""):
    answer = client.get(f"/metrics{query}")
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def counted(client):
    return re.findall(r"^flask_http_request_duration_seconds_count\{(.*?)\} (\S+)", page(client), re.MULTILINE)


def test_tritons_counters_have_tritons_names(client):
    Recorder(Journal(every_request=False)).record(SUCCESS._replace(model="exported"))
    text = page(client)
    assert '\nnv_inference_request_success{model="exported",version="1"} 1.0\n' in text
    assert '\nnv_inference_request_failure{model="exported",reason="BACKEND",version="1"} 0.0\n' in text
    assert "\n# TYPE nv_inference_request_success counter\n" in text
    assert "\n# HELP nv_inference_exec_count Number of model" in text
    assert not re.search(r"(nv|pinion)_\w+_total", text)


def test_the_page_is_prometheus_text(client):
    Recorder(Journal(every_request=False)).record(SUCCESS._replace(model='quote " and \n'))
    families = {family.name: family for family in text_string_to_metric_families(page(client))}
    assert families["pinion_request_duration_seconds"].type == "histogram"
    assert families["nv_inference_count"].type == "counter"
    assert 'quote " and \n' in {sample.labels["model"] for sample in families["nv_inference_count"].samples}


def test_routes_are_counted_by_their_rule(client):
    for path in ("/v2/models/a", "/v2/models/b", "/nowhere/1", "/nowhere/2"):
        client.get(path)
    assert counted(client) == [
        ('method="GET",status="200",url_rule="/v2/models/<name>"', "2.0"),
        ('method="GET",status="404",url_rule="None"', "2.0"),
    ]


@pytest.mark.parametrize("path", ["/v2/models/a/infer", "/v1/models/a:predict", "/predict/a", "/my/predict"])
def test_inferences_are_left_to_the_recorder(client, path):
    assert client.post(path).status_code == 200
    assert client.post(f"{path}/").status_code == 200
    assert counted(client) == []


def test_probes_and_scrapes_are_not_counted(client):
    for path in ("/v2/health/ready", "/ping", "/metrics", "/metrics/"):
        client.get(path)
    assert counted(client) == []


def test_invented_methods_make_no_series(client):
    for number in range(50):
        client.open("/v2/models/a", method=f"WORD{number}")
    assert counted(client) == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("nv_inference_count", r"nv_inference_count\{.*"),
        ("pinion_request_duration_seconds_count", r"pinion_request_duration_seconds_count\{.*"),
        ("pinion_request_duration_seconds", r"pinion_request_duration_seconds_(bucket|sum|count)\{.*"),
    ],
)
def test_a_page_can_be_narrowed_by_name(client, name, lines):
    Recorder(Journal(every_request=False)).record(SUCCESS)
    told = [line for line in page(client, f"?name[]={name}").splitlines() if not line.startswith("#")]
    assert told
    assert all(re.fullmatch(lines, line) for line in told)


def test_an_unknown_name_gives_an_empty_page(client):
    assert page(client, "?name[]=nothing") == ""


def test_each_application_of_a_process_counts_its_own():
    first, second = application(), application()
    first.get("/v2/models/a")
    second.get("/v2/models/a")
    assert counted(first) == counted(second) == [('method="GET",status="200",url_rule="/v2/models/<name>"', "1.0")]


SCRIPT = """
import os
from service.telemetry.series import key_files_by
key_files_by(lambda: f"w-{os.getpid()}")
from tests.unit.telemetry.test_exporter import SUCCESS, Journal, Recorder, application
client = application()
recorder = Recorder(Journal(every_request=False))
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        recorder.record(SUCCESS)
        client.get("/v2/models/a")
        os._exit(0)
    os.waitpid(pid, 0)
print(client.get("/metrics?name[]=nv_inference_count&name[]=flask_http_request").text)
"""


def test_the_page_is_right_over_all_processes(tmp_path):
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert 'nv_inference_count{model="m",version="1"} 2.0\n' in told
    assert 'flask_http_request_total{method="GET",status="200"} 2.0\n' in told
