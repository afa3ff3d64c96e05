"""The statistics extension, read back from the metrics of all processes.

Source: Triton's `extension_statistics.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from service.telemetry.series import merged

_NOTHING = {"count": 0, "ns": 0}


def model_stats(wanted: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The entries of `model_stats` for these models and versions, over all processes.

    `batch_stats` lists the first 64 sizes that a process has run.
    """
    samples = _by_model()
    return [_entry(name, version, samples[name, version]) for name, version in wanted]


def _by_model() -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """Sample values by model and version, then by name and batch size or reason."""
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for family in merged(CollectorRegistry()).collect():
        for sample in family.samples:
            labels = sample.labels
            if "model" not in labels or family.type == "histogram":
                continue
            more = labels.get("batch_size") or labels.get("reason") or ""
            found[labels["model"], labels["version"]][sample.name, more] = sample.value
    return found


def _entry(name: str, version: str, samples: dict[tuple[str, str], float]) -> dict[str, Any]:
    success = int(samples.get(("nv_inference_request_success", ""), 0))
    failures = int(sum(value for (key, _), value in samples.items() if key == "nv_inference_request_failure"))

    def duration(counter: str) -> dict[str, int]:
        return {"count": success, "ns": _ns(samples, counter)}

    return {
        "name": name,
        "version": version,
        "last_inference": int(samples.get(("pinion_last_inference_ms", ""), 0)),
        "inference_count": int(samples.get(("nv_inference_count", ""), 0)),
        "execution_count": int(samples.get(("nv_inference_exec_count", ""), 0)),
        "inference_stats": {
            "success": {"count": success, "ns": _ns(samples, "nv_inference_request_duration_us")},
            "fail": {"count": failures, "ns": _ns(samples, "pinion_request_failure_duration_us")},
            "queue": duration("nv_inference_queue_duration_us"),
            "compute_input": duration("nv_inference_compute_input_duration_us"),
            "compute_infer": duration("nv_inference_compute_infer_duration_us"),
            "compute_output": duration("nv_inference_compute_output_duration_us"),
            "cache_hit": _NOTHING,
            "cache_miss": _NOTHING,
        },
        "response_stats": {},
        "batch_stats": _batches(samples),
        "memory_usage": [],
    }


def _batches(samples: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    sizes = sorted(int(size) for key, size in samples if key == "pinion_batch_executions")
    rows = []
    for size in sizes:
        count = int(samples["pinion_batch_executions", str(size)])
        rows.append(
            {
                "batch_size": size,
                **{
                    phase: {"count": count, "ns": _ns(samples, f"pinion_batch_{phase}_duration_us", str(size))}
                    for phase in ("compute_input", "compute_infer", "compute_output")
                },
            }
        )
    return rows


def _ns(samples: dict[tuple[str, str], float], counter: str, more: str = "") -> int:
    return round(samples.get((counter, more), 0.0) * 1e3)
