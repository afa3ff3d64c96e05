import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.__main__ import COMMANDS, main
from service.catalog.layout import Found
from service.cli import check, health
from service.prefork import conf_check
from service.settings import Settings

ROOT = Path(__file__).parents[3]


def run(*arguments, **environ):
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    environment = {"PATH": "/usr/bin:/bin", **measured, **environ}
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_usage_lists_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert main([]) == 2


def test_an_unknown_command_gets_a_hint(capsys):
    assert main(["helth"]) == 2
    assert "did you mean health?" in capsys.readouterr().err


def test_check_of_the_shipped_configuration_finds_nothing():
    done = run("check", PORT="9000")
    assert done.returncode == 0, done.stdout
    assert "No problem was found." in done.stdout
    assert any(line.split() == ["port", "9000", "PORT"] for line in done.stdout.splitlines())


def test_check_tells_everything_at_once(tmp_path):
    for name, text in (("a", "thread = 1"), ("b", 'timeout_s = "x"'), ("c", "timeout_s = 60")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(b"\x08\x01")
        (tmp_path / name / "model.toml").write_text(text)
    wrong = {"PORT": "abc", "PINION_PORT": "x", "PINION_RAEDY": "any", "PINION_RUN_DIR": "/proc/none"}
    shown = run("check", PINION_MODELS=str(tmp_path), **wrong).stdout
    for problem in (
        "PORT: expected a port from 0 to 65535, got 'abc'",
        "PINION_PORT: expected a port from 0 to 65535, got 'x'",
        "PINION_RAEDY: unknown setting; did you mean PINION_READY?",
        "PINION_RUN_DIR: expected a folder that can be written, got /proc/none",
        "model a: model.toml:1: `thread`: unknown key; did you mean `threads`?",
        "model b: model.toml:1: `timeout_s`: expected a number above 0, got 'x'",
        "model c: model.toml:1: `timeout_s` is 60, expected less than gunicorn's `timeout` of 30",
    ):
        assert problem in shown
    assert "7 problem(s)" in shown
    assert any(line.split() == ["models", str(tmp_path), "PINION_MODELS"] for line in shown.splitlines())


def test_check_of_a_repository_that_is_not_there():
    done = run("check", PINION_MODELS="/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stdout
    assert "1 problem(s)" in done.stdout
    assert done.stderr == ""


def test_check_leaves_no_run_folder_behind(tmp_path):
    made = set(Path("/dev/shm").glob("pinion-*"))
    assert run("check", TMPDIR=str(tmp_path)).returncode == 0
    assert set(Path("/dev/shm").glob("pinion-*")) - made == set()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def conf(tmp_path):
    return tmp_path / "gunicorn.conf.py"


def test_names_that_gunicorn_would_ignore(conf):
    conf.write_text("import os\nworker = 3\ntimeout = '9'\n_private = 1\nzzz = 1\ndef own(): pass\n")
    values, problems = conf_check.read(conf)
    assert values == {"timeout": 9}
    assert problems == [
        f"{conf}:2: gunicorn has no setting 'worker' and would ignore it; did you mean workers?",
        f"{conf}:5: gunicorn has no setting 'zzz' and would ignore it; a name of your own starts with _",
    ]


def test_a_misspelt_hook_is_told(conf):
    conf.write_text("def post_forkk(server, worker): pass\n")
    assert conf_check.read(conf)[1] == [
        f"{conf}:1: gunicorn has no setting 'post_forkk' and would ignore it; did you mean post_fork?"
    ]


@pytest.mark.parametrize("line", ["timeout = -1", "workers = 'many'", "def post_fork(): pass"])
def test_values_that_gunicorn_refuses(conf, line):
    conf.write_text(line)
    values, problems = conf_check.read(conf)
    assert values == {}
    assert [problem.startswith(f"{conf}:1: gunicorn refuses ") for problem in problems] == [True]


def test_a_file_that_ends_the_start(conf):
    conf.write_text("1/0")
    assert conf_check.read(conf) == ({}, [f"{conf}:1: ZeroDivisionError: division by zero"])
    conf.write_text("import os\nx = = 1")
    assert conf_check.read(conf) == ({}, [f"{conf}:2: invalid syntax"])
    conf.write_text("raise SystemExit(3)")
    assert conf_check.read(conf) == ({}, [f"{conf}: ends the start with exit status 3"])
    assert conf_check.read(conf.with_name("none.py")) == ({}, [])


def test_without_a_limit_of_gunicorn_every_time_of_a_model_will_do(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "m.toml").write_text("")
    found = Found("m", {"1": tmp_path / "m.onnx"}, False, tmp_path / "m.toml", None, tmp_path)
    assert check._check_model(found, Settings(), 0) == []
    assert len(check._check_model(found, Settings(), 10)) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v2/health/ready", "file:///etc/passwd"])
def test_health_of_nothing_is_1(url, capsys):
    assert health.ask(url, 1.0) == 1
    assert url.split("/v2")[0] in capsys.readouterr().out + capsys.readouterr().err or url.startswith("file")


def test_health_with_wrong_settings():
    done = run("health", PORT="abc")
    assert done.returncode == 1
    assert "PORT" in done.stderr
