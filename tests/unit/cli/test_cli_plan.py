import json
import runpy
from pathlib import Path

import pytest

from service.cli import plan

MAKE = Path(__file__).parents[2] / "data" / "machines" / "make.py"


@pytest.fixture(autouse=True)
def no_configuration_file(tmp_path, monkeypatch):
    """The shipped one would name this process's metrics files."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def machine(tmp_path):
    runpy.run_path(str(MAKE))["write"](tmp_path)
    return tmp_path / "quota_2_5"


def test_the_plan_is_a_table_with_reasons_and_warnings(machine, capsys):
    assert plan.main(["--machine", str(machine), "--workers", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["lane  threads  CPUs", "   0        1  0", "   1        1  1", "   2        1  0"]
    assert lines[5] == "8 physical cores may be used (CPUs 0-7)."
    assert lines[-1].startswith("Warning: 3 workers share 2 cores")


def test_the_plan_is_given_as_json(machine, capsys):
    plan.main(["--machine", str(machine), "--workers", "1", "--json"])
    assert json.loads(capsys.readouterr().out)["lanes"] == [{"cpus": [0, 1], "threads": 2}]


def test_the_number_of_the_settings_holds_for_this_machine_only(machine, capsys, monkeypatch):
    monkeypatch.setenv("PINION_WORKERS", "7")
    plan.main(["--json"])
    assert len(json.loads(capsys.readouterr().out)["lanes"]) == 7
    plan.main(["--machine", str(machine), "--json"])
    assert len(json.loads(capsys.readouterr().out)["lanes"]) == 2


def test_settings_that_cannot_be_used_are_all_told(capsys, monkeypatch):
    monkeypatch.setenv("PINION_WORKERS", "many")
    assert plan.main([]) == 1
    assert capsys.readouterr().err == "PINION_WORKERS: expected a whole number from 1 on, got 'many'\n"


def test_a_folder_that_is_no_machine_is_an_error_that_says_what_is_missing(tmp_path, capsys):
    assert plan.main(["--machine", str(tmp_path)]) == 1
    assert "names no CPU: expected a recorded tree with its `online` file" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_wrong_number_of_workers_says_what_was_expected(text, capsys):
    with pytest.raises(SystemExit) as ended:
        plan.main(["--workers", text])
    assert ended.value.code == 2
    assert f"expected a whole number from 1 on, got '{text}'" in capsys.readouterr().err
