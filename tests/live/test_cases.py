"""Requests with the right answers, from faults that people reported against other servers."""

import json
import subprocess
import sys

import pytest

from tests.live.conftest import RUNNER
from tests.live.server import Server

GATHER = ()
SYNC = ("-k", "sync", "--threads", "1")
GTHREAD = ("-k", "gthread", "--threads", "8")


@pytest.mark.parametrize(
    ("arguments", "line", "workers", "layout", "settings"),
    [
        (GATHER, "Using worker: service.prefork.worker.GatherWorker", 1, "triton", {}),
        (GATHER, "Using worker: service.prefork.worker.GatherWorker", 3, "flat", {}),
        (GATHER, "Using worker: service.prefork.worker.GatherWorker", 1, "flat", {"pinion_fast_json_bytes": "0"}),
        (SYNC, "Using worker: sync\n", 1, "flat", {}),
        (SYNC, "Using worker: sync\n", 3, "triton", {}),
        (GTHREAD, "Using worker: gthread\n", 1, "triton", {}),
        (GTHREAD, "Using worker: gthread\n", 3, "flat", {}),
    ],
    ids=["gather-1", "gather-3", "gather-simdjson", "sync-1", "sync-3", "gthread-1", "gthread-3"],
)
def test_every_case_under_every_worker(tmp_path, case_models, arguments, line, workers, layout, settings):
    models = case_models(layout)
    report = tmp_path / "report.json"
    with Server(tmp_path, *arguments, models=models, workers=workers, pinion_ready="any", **settings) as server:
        done = subprocess.run(
            [sys.executable, RUNNER, "--url", server.url, "--json", report], capture_output=True, text=True, check=False
        )
        assert line in server.log()
        assert "Traceback" not in server.log() or "request" in server.log()
    results = json.loads(report.read_text())
    assert [result for result in results if result["fails"]] == [], done.stdout
    assert len(results) == 44
