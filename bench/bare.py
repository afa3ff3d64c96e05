"""The limit in the process: `session.run` in a loop; a number of seconds on each line in, JSON out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import feeds_of, session_of


def main() -> None:
    """Measures until the input ends."""
    session = session_of(Path(sys.argv[1]))
    feeds = feeds_of(session)
    names = [output.name for output in session.get_outputs() if output.type.startswith("tensor(")]
    for _ in range(3):
        session.run(names, feeds)
    for line in sys.stdin:
        print(json.dumps(_measure(session, names, feeds, float(line))), flush=True)


def _measure(session: Any, names: list[str], feeds: Mapping[str, Any], seconds: float) -> dict[str, float]:
    run, clock = session.run, time.perf_counter
    times_s = []
    began_cpu_s = time.process_time()
    began_s = at_s = clock()
    while at_s - began_s < seconds:
        run(names, feeds)
        now_s = clock()
        times_s.append(now_s - at_s)
        at_s = now_s
    cpu_s = time.process_time() - began_cpu_s
    p50, p99, p999 = np.percentile(times_s, [50, 99, 99.9])
    count = len(times_s)
    return {
        "requests": count,
        "rate": count / (at_s - began_s),
        "cpu_us": cpu_s / count * 1e6,
        "p50_ms": p50 * 1e3,
        "p99_ms": p99 * 1e3,
        "p999_ms": p999 * 1e3,
        "failures": 0,
    }


if __name__ == "__main__":
    main()
