"""Several processes count together: real forks, real files, merged by the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[3]
START = """
import os, orjson
from tests.unit.telemetry.outcomes import SUCCESS
slot = "master"
from service.telemetry.series import key_files_by
key_files_by(lambda: slot)
from service.telemetry.journal import Journal
from service.telemetry.record import Recorder
from service.telemetry.statistics import model_stats
recorder = Recorder(Journal(every_request=False))

def child(name, count):
    global slot
    pid = os.fork()
    if pid == 0:
        slot = name
        for _ in range(count):
            recorder.record(SUCCESS)
        recorder.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def told():
    entry = model_stats([("m", "1")])[0]
    print(orjson.dumps(entry).decode())
"""


@pytest.fixture
def counted(tmp_path):
    folder = tmp_path / "made" / "metrics"

    def run(script):
        environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "error", "-c", START + script]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return orjson.loads(done.stdout)

    run.folder = folder
    return run


def test_children_are_added_up(counted):
    told = counted('child("a", 3); child("b", 4); told()')
    assert told["inference_stats"]["success"] == {"count": 7, "ns": 7 * 451_000}
    assert told["inference_count"] == 7
    assert told["last_inference"] > 1_700_000_000_000
    assert sorted(path.name for path in counted.folder.glob("counter_*")) == ["counter_a.db", "counter_b.db"]


def test_a_successor_goes_on_in_the_file_of_its_slot(counted):
    told = counted('child("a", 10); child("a", 10); child("a", 10); told()')
    assert told["inference_stats"]["success"]["count"] == 30
    assert [path.name for path in counted.folder.glob("counter_*")] == ["counter_a.db"]


def test_series_made_before_the_fork_change_to_the_childs_file(counted):
    told = counted('recorder.record(SUCCESS); child("a", 2); child("b", 2); recorder.record(SUCCESS); told()')
    assert told["inference_stats"]["success"]["count"] == 6
    assert len(list(counted.folder.glob("counter_*"))) == 3


def test_what_the_parent_has_not_written_is_not_counted_twice(counted):
    told = counted(
        'recorder.gather(); recorder.record(SUCCESS); child("a", 0); child("b", 1)\nrecorder.flush(); told()'
    )
    assert told["inference_stats"]["success"]["count"] == 2


def test_a_second_application_in_the_process_keeps_the_files(counted):
    told = counted(
        'recorder.record(SUCCESS); key_files_by(lambda: "master"); recorder.record(SUCCESS)\n'
        "other = Recorder(Journal(every_request=False)); other.record(SUCCESS)\n"
        'other.record(SUCCESS._replace(model="n")); told()'
    )
    assert told["inference_stats"]["success"]["count"] == 3


def test_a_file_that_is_just_being_made_is_passed_over(counted):
    told = counted(
        'child("a", 1)\nopen(os.environ["PROMETHEUS_MULTIPROC_DIR"] + "/counter_new.db", "w").close(); told()'
    )
    assert told["inference_stats"]["success"]["count"] == 1


def test_merged_histograms_are_cumulative(counted):
    told = counted(
        'child("a", 2); child("b", 3)\n'
        "from prometheus_client import CollectorRegistry\n"
        "from service.telemetry.series import merged\n"
        "registry = merged(CollectorRegistry())\n"
        'labels = {"model": "m", "version": "1"}\n'
        'name = "pinion_request_duration_seconds"\n'
        "get = registry.get_sample_value\n"
        'print([get(name + "_bucket", {**labels, "le": le}) for le in ("0.00025", "0.0005", "+Inf")]\n'
        '      + [get(name + "_count", labels)])'
    )
    assert told == [0, 5, 5, 5]
