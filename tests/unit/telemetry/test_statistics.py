"""The statistics extension, from what has been recorded."""

from __future__ import annotations

from service.telemetry.journal import Journal
from service.telemetry.record import Recorder
from service.telemetry.statistics import model_stats
from tests.unit.telemetry.outcomes import SUCCESS, failed, timed

ZERO = {"count": 0, "ns": 0}


def recorded(model, *outcomes):
    recorder = Recorder(Journal(every_request=False, fd=-1))
    for outcome in outcomes:
        recorder.record(outcome._replace(model=model))
    (entry,) = model_stats([(model, "1")])
    return entry


def test_a_model_that_was_never_asked_has_zeros():
    (entry,) = model_stats([("never asked", "7")])
    assert (entry["name"], entry["version"]) == ("never asked", "7")
    assert (entry["inference_count"], entry["execution_count"], entry["last_inference"]) == (0, 0, 0)
    assert set(map(str, entry["inference_stats"].values())) == {str(ZERO)}
    assert entry["batch_stats"] == []


def test_counts_and_nanoseconds_add_up():
    entry = recorded("stats-sums", SUCCESS, timed(SUCCESS, rows=4, batch_rows=4), failed("", 500, "run-failed"))
    assert entry["inference_count"] == 5
    assert entry["execution_count"] == 2
    assert entry["inference_stats"] == {
        "success": {"count": 2, "ns": 902_000},
        "fail": {"count": 1, "ns": 50_000},
        "queue": {"count": 2, "ns": 2_000},
        "compute_input": {"count": 2, "ns": 40_000},
        "compute_infer": {"count": 2, "ns": 800_000},
        "compute_output": {"count": 2, "ns": 60_000},
        "cache_hit": ZERO,
        "cache_miss": ZERO,
    }


def test_failures_of_all_reasons_are_one_number():
    errors = ("shape-mismatch", "not-ready", "run-failed")
    entry = recorded("stats-failures", *(failed("", 400, error) for error in errors))
    assert entry["inference_stats"]["fail"] == {"count": 3, "ns": 150_000}


def test_batches_are_told_by_size():
    ten = timed(SUCCESS, rows=10, batch_rows=10)
    entry = recorded("stats-batches", ten, SUCCESS, ten)
    assert entry["batch_stats"] == [
        {
            "batch_size": 1,
            "compute_input": {"count": 1, "ns": 20_000},
            "compute_infer": {"count": 1, "ns": 400_000},
            "compute_output": {"count": 1, "ns": 30_000},
        },
        {
            "batch_size": 10,
            "compute_input": {"count": 2, "ns": 40_000},
            "compute_infer": {"count": 2, "ns": 800_000},
            "compute_output": {"count": 2, "ns": 60_000},
        },
    ]
