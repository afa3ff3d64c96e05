import json
import os
import subprocess
import sys
from pathlib import Path

import gunicorn
import pytest
from gunicorn.config import Config

from service.host.plan import make_plan
from service.host.topology import read_machine
from service.prefork import start
from service.settings import resolve

ROOT = Path(__file__).parents[3]
READ = """
import json, os, runpy, sys
sys.argv = ["gunicorn", *sys.argv[1:]]
names = runpy.run_path("gunicorn.conf.py")
own = sorted(name for name in sys.modules if name.split(".")[0] in ("service", "numpy", "onnxruntime", "flask"))
values = {key: value for key, value in names.items() if isinstance(value, (str, int, list, type(None)))}
environment = dict(os.environ)
print(json.dumps({"names": sorted(names), "values": values, "modules": own, "environment": environment}))
"""


def read_conf(*arguments, **environment):
    """Executes gunicorn.conf.py like gunicorn does."""
    given = {"PATH": os.environ["PATH"]} | environment
    return subprocess.run(
        [sys.executable, "-c", READ, *arguments], cwd=ROOT, env=given, capture_output=True, text=True, check=False
    )


def conf(*arguments, **environment):
    return json.loads(read_conf(*arguments, **environment).stdout)


def test_every_name_is_a_setting_of_gunicorn():
    names = [name for name in conf()["names"] if not name.startswith("__")]
    assert sorted(set(names) - set(Config().settings)) == ["hooks", "os", "run_dir", "settings", "start"]


def test_the_master_imports_only_what_a_reload_does_not_renew():
    rooms = {".".join(name.split(".")[:2]) for name in conf()["modules"]}
    told = {"service.errors", "service.settings", "service.setting_readers", "service.host", "service.prefork"}
    assert rooms == {"service", *told}


def test_pools_of_other_libraries_and_telemetry_threads_are_off():
    environment = conf(OMP_NUM_THREADS="8")["environment"]
    names = ("ORT_DISABLE_TELEMETRY", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    assert [environment[name] for name in names] == ["1", "1", "1"]


def test_the_folder_that_was_made_is_gone_when_nothing_was_started():
    folder = Path(conf()["environment"]["PROMETHEUS_MULTIPROC_DIR"])
    assert folder.name == "metrics"
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("environment", "bind"),
    [
        ({}, ["127.0.0.1:8000"]),
        ({"PORT": "9000"}, ["0.0.0.0:9000"]),
        ({"AIP_HTTP_PORT": "9001", "PORT": "9000"}, ["0.0.0.0:9001"]),
        ({"PINION_OPERATOR_BIND": "127.0.0.1:9100"}, ["127.0.0.1:8000", "127.0.0.1:9100"]),
    ],
)
def test_the_service_is_open_to_others_only_once_a_port_is_set(environment, bind):
    assert start.addresses(resolve(environment).settings) == bind


@pytest.mark.parametrize(
    ("arguments", "environment", "threads"),
    [
        ([], {}, 8),
        (["-k", "sync"], {}, 1),
        (["-k", "gthread", "wsgi:app"], {}, 8),
        ([], {"GUNICORN_CMD_ARGS": "--worker-class=sync"}, 1),
        (["-k", "gthread"], {"GUNICORN_CMD_ARGS": "-k sync"}, 8),
    ],
)
def test_sync_on_the_command_line_stays_sync(arguments, environment, threads, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gunicorn", *arguments])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert start.io_threads(8) == threads


def test_the_default_is_one_worker_for_each_lane():
    lanes = make_plan(read_machine(), None).lanes
    assert start.default_workers() == conf()["values"]["workers"] == len(lanes)


def test_settings_that_cannot_be_used_end_the_start(monkeypatch, capsys):
    monkeypatch.setenv("PINION_WORKERS", "0")
    with pytest.raises(SystemExit) as ended:
        start.prepare()
    assert ended.value.code == 1
    assert "PINION_WORKERS: expected a whole number from 1 on, got '0'" in capsys.readouterr().err


def test_the_folder_of_gunicorn_itself_leaves_the_path_also_behind_a_link(monkeypatch, tmp_path):
    (tmp_path / "venv").symlink_to(Path(gunicorn.__file__).parent)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "venv"), str(tmp_path), "", *sys.path])
    monkeypatch.setenv("PINION_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    before = sys.path[1:]
    start.prepare()
    assert sys.path == before


def test_settings_come_with_the_run_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PINION_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    assert start.prepare().run_dir == tmp_path
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path / "metrics")


def test_the_number_of_workers_may_be_set():
    assert conf(WEB_CONCURRENCY="5")["values"]["workers"] == 5
    assert conf(WEB_CONCURRENCY="5", PINION_WORKERS="3")["values"]["workers"] == 3


def test_all_problems_end_the_start_without_a_traceback():
    result = read_conf(PORT="x", PINION_WRKERS="3")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines() == [
        "The configuration can't be used:",
        "  PORT: expected a port from 0 to 65535, got 'x'",
        "  PINION_WRKERS: unknown setting; did you mean PINION_WORKERS?",
    ]


def test_files_that_are_not_there_end_the_start(tmp_path):
    ended = read_conf(PINION_API_KEYS_FILE=str(tmp_path / "none"), PINION_AUDIT_FILE=str(tmp_path / "no" / "audit"))
    assert ended.returncode == 1
    assert f"  PINION_API_KEYS_FILE: expected a file that can be read, got {tmp_path / 'none'}" in ended.stderr
    assert (
        f"  PINION_AUDIT_FILE: expected a file in a folder that can be written, got {tmp_path}/no/audit" in ended.stderr
    )
