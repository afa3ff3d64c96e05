import subprocess
import sys
from pathlib import Path

import pytest

from service.__main__ import COMMANDS, main
from service.cli import health
from service.prefork import conf_check

ROOT = Path(__file__).parents[3]


def run(*arguments, **environ):
    environment = {"PATH": "/usr/bin:/bin", **environ}
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
    done = run("check", PORT="abc", PINION_RAEDY="any", PINION_MODELS=str(tmp_path))
    assert done.returncode == 1
    assert "PORT: expected a port from 0 to 65535, got 'abc'" in done.stdout
    assert "PINION_RAEDY: unknown setting; did you mean PINION_READY?" in done.stdout
    models = run("check", PINION_MODELS=str(tmp_path)).stdout
    assert "model.toml:1" in models
    assert "did you mean" in models
    assert "model c: timeout_s is 60, expected less than gunicorn's timeout of 30" in models
    assert "3 problem(s)" in models


def test_check_of_a_repository_that_is_not_there():
    done = run("check", PINION_MODELS="/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stdout


def test_names_that_gunicorn_would_ignore(tmp_path):
    conf = tmp_path / "gunicorn.conf.py"
    conf.write_text("import os\nworker = 3\ntimeout = 9\n_private = 1\ndef own(): pass\n")
    values, problems = conf_check.read(conf)
    assert values["timeout"] == 9
    assert problems == [f"{conf}: gunicorn has no setting 'worker' and would ignore it; did you mean workers?"]
    conf.write_text("1/0")
    assert "ZeroDivisionError" in conf_check.read(conf)[1][0]
    assert conf_check.read(tmp_path / "none.py") == ({}, [])


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v2/health/ready", "file:///etc/passwd"])
def test_health_of_nothing_is_1(url, capsys):
    assert health.ask(url, 1.0) == 1
    assert url.split("/v2")[0] in capsys.readouterr().out + capsys.readouterr().err or url.startswith("file")


def test_health_with_wrong_settings():
    done = run("health", PORT="abc")
    assert done.returncode == 1
    assert "PORT" in done.stderr
