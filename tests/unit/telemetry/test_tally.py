"""Sums are Triton's counters, exactly, and bulk writes equal single observations."""

from __future__ import annotations

import itertools

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as ClientHistogram

from service.telemetry.series import STORE
from service.telemetry.tally import COARSE_NS, FINE_NS, Tally
from tests.unit.telemetry.outcomes import SUCCESS, count, failed, timed

names = (f"tally-{number}" for number in itertools.count())


@pytest.fixture
def model():
    return next(names)


def samples(model):
    found = {}
    for family in STORE.collect():
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key not in ("model", "version")}
            if sample.labels.get("model") == model:
                found[sample.name, *labels.values()] = sample.value
    return found


def tallied(model, *outcomes):
    tally = Tally(model, "1", (model, "1"))
    for outcome in outcomes:
        count(tally, outcome)
    tally.flush()
    return samples(model)


def test_all_counters_are_there_at_zero(model):
    found = tallied(model)
    assert found["nv_inference_request_success",] == 0
    assert {key[1] for key in found if key[0] == "nv_inference_request_failure"} == {"REJECTED", "BACKEND", "OTHER"}
    assert not any(found.values())


def test_a_success_is_counted_in_tritons_units(model):
    found = tallied(model, timed(SUCCESS, rows=3, batch_rows=3))
    assert found["nv_inference_request_success",] == 1
    assert found["nv_inference_count",] == 3
    assert found["nv_inference_exec_count",] == 1
    assert found["nv_inference_request_duration_us",] == 451
    assert found["nv_inference_queue_duration_us",] == 1
    assert found["nv_inference_compute_input_duration_us",] == 20
    assert found["nv_inference_compute_infer_duration_us",] == 400
    assert found["nv_inference_compute_output_duration_us",] == 30
    assert found["pinion_batch_executions", "3"] == 1
    assert found["pinion_last_inference_ms",] > 1_700_000_000_000


def test_requests_that_share_a_run_are_one_execution(model):
    leader = timed(SUCCESS, rows=1, batch_rows=3)
    found = tallied(model, leader, timed(leader, rows=2, leads=False))
    assert found["nv_inference_request_success",] == 2
    assert found["nv_inference_count",] == 3
    assert found["nv_inference_exec_count",] == 1
    assert found["pinion_batch_executions", "3"] == 1
    assert found["pinion_batch_compute_infer_duration_us", "3"] == 400
    assert found["pinion_batch_compute_input_duration_us", "3"] == 40
    assert found["pinion_run_duration_seconds_count",] == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("not-ready", "REJECTED"),
        ("deadline-passed", "REJECTED"),
        ("run-failed", "BACKEND"),
        ("refused-by-model", "BACKEND"),
        ("shape-mismatch", "OTHER"),
        ("internal-error", "OTHER"),
    ],
)
def test_a_failure_has_tritons_reason(model, error, reason):
    found = tallied(model, failed(model, 400, error))
    assert found["nv_inference_request_failure", reason] == 1
    assert found["nv_inference_request_success",] == 0
    assert found["nv_inference_count",] == 0
    assert found["nv_inference_request_duration_us",] == 0
    assert found["pinion_request_failure_duration_us",] == 50
    assert found["pinion_request_duration_seconds_count",] == 1
    assert found["pinion_run_duration_seconds_count",] == 0


def test_buckets_equal_those_of_single_observations(model):
    durations_ns = [0, 249_999, 250_000, 250_001, 353_553, 353_554, 5_000_000, 29_999_999_999, 99_000_000_000] * 3
    found = tallied(model, *(timed(SUCCESS, total_ns=duration) for duration in durations_ns))
    registry = CollectorRegistry()
    reference = ClientHistogram("h", "h", buckets=[edge / 1e9 for edge in FINE_NS], registry=registry)
    for duration_ns in durations_ns:
        reference.observe(duration_ns / 1e9)
    for edge in [*(edge / 1e9 for edge in FINE_NS), "+Inf"]:
        expected = registry.get_sample_value("h_bucket", {"le": str(edge)})
        assert found["pinion_request_duration_seconds_bucket", str(edge)] == expected
    assert found["pinion_request_duration_seconds_sum",] == pytest.approx(sum(durations_ns) / 1e9)
    assert found["pinion_request_duration_seconds_count",] == len(durations_ns)


def test_every_phase_is_observed(model):
    found = tallied(model, SUCCESS)
    sums = {phase: found["pinion_phase_duration_seconds_sum", phase] for phase in ("read", "queue", "run", "write")}
    assert sums == pytest.approx({"read": 2e-5, "queue": 1e-6, "run": 4e-4, "write": 3e-5})


def test_edges_span_a_request():
    assert (FINE_NS[0], FINE_NS[2], len(FINE_NS)) == (250_000, 500_000, 35)
    assert FINE_NS[-2] < 30_000_000_000 < FINE_NS[-1]
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(COARSE_NS))


def test_callers_cant_make_series_without_end(model):
    found = tallied(model, *(timed(SUCCESS, rows=rows, batch_rows=rows) for rows in range(1, 500)))
    assert sum(key[0] == "pinion_batch_executions" for key in found) == 64
    assert found["nv_inference_exec_count",] == 499


def test_flushing_twice_counts_once(model):
    tally = Tally(model, "1", (model, "1"))
    count(tally, SUCCESS)
    assert tally.dirty
    tally.flush()
    tally.flush()
    assert not tally.dirty
    assert samples(model)["nv_inference_request_success",] == 1
