"""Outcomes as tests need them."""

from __future__ import annotations

from service.telemetry.outcome import Outcome, Timing

SUCCESS = Outcome(
    model="m",
    version="1",
    request_id="id-1",
    method="POST",
    path="/v2/models/m/infer",
    client="127.0.0.1",
    status=200,
    error=None,
    executed=True,
    timing=Timing(
        rows=1,
        batch_rows=1,
        leads=True,
        read_ns=20_000,
        queue_ns=1_000,
        run_ns=400_000,
        write_ns=30_000,
        total_ns=451_000,
    ),
    bytes_in=100,
    bytes_out=200,
)
"""One row, one run, 451 µs."""


def failed(model, status, error):
    timing = SUCCESS.timing._replace(run_ns=0, total_ns=50_000)
    return SUCCESS._replace(model=model, status=status, error=error, executed=False, timing=timing)


def timed(outcome, **figures):
    return outcome._replace(timing=outcome.timing._replace(**figures))


def count(tally, outcome):
    """Counts an outcome as the recorder does."""
    if outcome.error is None:
        tally.succeed(outcome.timing)
    else:
        tally.fail(outcome)
