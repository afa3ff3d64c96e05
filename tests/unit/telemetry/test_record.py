"""The book of one process: right under threads, in turns, with many models, and when it can't be written."""

from __future__ import annotations

import logging
import threading
import time
import types

import pytest

from service.telemetry import record
from service.telemetry.journal import Journal
from service.telemetry.record import Recorder
from service.telemetry.series import STORE
from service.telemetry.statistics import model_stats
from tests.unit.telemetry.outcomes import SUCCESS, failed


@pytest.fixture
def recorder():
    return Recorder(Journal(every_request=False, fd=-1))


def successes(model):
    (entry,) = model_stats([(model, "1")])
    return entry["inference_stats"]["success"]["count"]


def value(name, **labels):
    found = [s.value for family in STORE.collect() for s in family.samples if s.name == name and s.labels == labels]
    return sum(found)


def test_threads_lose_nothing(recorder):
    outcome = SUCCESS._replace(model="threads")
    threads = [threading.Thread(target=lambda: [recorder.record(outcome) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert successes("threads") == 4000


def test_a_scrape_may_come_while_models_are_new(recorder):
    done = threading.Event()

    def make():
        for number in range(100):
            recorder.prepare(f"new-{number}", "1")
        done.set()

    thread = threading.Thread(target=make)
    thread.start()
    while not done.is_set():
        list(STORE.collect())
    thread.join()


def test_a_gathering_worker_writes_before_it_sleeps(recorder):
    recorder.gather()
    recorder.flush()
    for _ in range(3):
        recorder.record(SUCCESS._replace(model="gathered"))
    assert successes("gathered") == 0
    recorder.flush()
    assert successes("gathered") == 3
    recorder.flush()
    assert successes("gathered") == 3


@pytest.mark.parametrize(("age_ms", "written_when_idle", "written_when_busy"), [(1, 0, 0), (50, 1, 0), (5000, 1, 1)])
def test_a_busy_worker_writes_now_and_then_and_an_idle_one_sooner(
    recorder, monkeypatch, age_ms, written_when_idle, written_when_busy
):
    now_ns = time.perf_counter_ns()
    monkeypatch.setattr(record, "time", types.SimpleNamespace(perf_counter_ns=lambda: now_ns))
    recorder.gather()
    for idle, written in ((True, written_when_idle), (False, written_when_busy)):
        name = f"due-{idle}-{age_ms}"
        recorder.flush()
        recorder._written_ns = now_ns - age_ms * 1_000_000
        recorder.record(SUCCESS._replace(model=name))
        assert recorder.flush_due(idle=idle) is not bool(written)
        assert successes(name) == written


def test_requests_for_no_model_make_no_series_of_their_names(recorder):
    before = value("pinion_requests_without_model", status="404")
    recorder.record(failed(None, 404, "unknown-model")._replace(version=None))
    assert value("pinion_requests_without_model", status="404") == before + 1
    assert value("nv_inference_request_failure", model="None", version="None", reason="OTHER") == 0


def test_histograms_of_many_models_are_one(recorder, monkeypatch):
    monkeypatch.setattr(record, "_MOST_HISTOGRAMS", 2)
    before = value("pinion_request_duration_seconds_count", model="other", version="")
    for name in ("cap-a", "cap-b", "cap-c", "cap-d", "cap-d"):
        recorder.record(SUCCESS._replace(model=name))
    assert value("pinion_request_duration_seconds_count", model="cap-b", version="1") == 1
    assert value("pinion_request_duration_seconds_count", model="other", version="") == before + 3
    assert successes("cap-d") == 2


def test_a_full_disk_is_logged_once_and_fails_no_request(recorder, monkeypatch, caplog):
    def full(_tally):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record.Tally, "flush", full)
    with caplog.at_level(logging.ERROR):
        recorder.record(SUCCESS._replace(model="full"))
        recorder.record(SUCCESS._replace(model="full"))
    assert [entry.getMessage() for entry in caplog.records] == [
        "metrics can't be written and will have gaps: [Errno 28] No space left on device"
    ]


def test_a_full_disk_ends_no_turn(recorder, monkeypatch):
    def full(_tally):
        raise OSError(28, "No space left on device")

    recorder.gather()
    recorder.record(SUCCESS._replace(model="full-turn"))
    with monkeypatch.context() as patch:
        patch.setattr(record.Tally, "flush", full)
        recorder.flush()
    recorder.flush()
    assert successes("full-turn") == 1
