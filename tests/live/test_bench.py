"""The benchmark for users runs as a whole: every cell is measured, verified and in the table."""

import json
import subprocess
import sys

import pytest

from tests.live.server import ROOT


def bench(*arguments):
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.parametrize("model", ["iris", "embed"])
def test_every_cell_is_measured(tmp_path, model):
    result = tmp_path / "result.json"
    done = bench(
        "--models", model, "--formats", "json,binary", "--connections", "1,2", "--open", "0.3", "--seconds", "0.3",
        "--rounds", "2", "--json", str(result),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = {(one["contender"], one["form"], one["load"]): one["rounds"] for one in json.loads(result.read_text())}
    loads = ("closed 1", "closed 2", "open 0.3")
    expected = {("bare loop", "-", "closed 1")}
    expected |= {("this service", form, load) for form in ("json", "binary") for load in loads}
    expected |= {("Flask + gthread", "json", load) for load in loads}
    assert set(cells) == expected
    for rounds in cells.values():
        assert len(rounds) == 2
        for figures in rounds:
            assert figures["requests"] > 0
            assert figures["failures"] == 0
            assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["p999_ms"]
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + len(expected)
    assert all(line.startswith(f"| {model} | ") and line.endswith(" 0 |") for line in lines[2:])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--models", "iri"), "expected some of iris, digits, tiny, "),
        (("--formats", "xml"), "expected some of json, binary, got xml"),
        (("--server-cpus", "4000"), "which this process may use"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, sentence):
    done = bench(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
