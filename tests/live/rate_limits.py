"""A key may ask 100 times a second; 1 000 requests a second come in an open loop, on four workers.

Exits with 1 unless the answered ones are 100 times the seconds, within 5 %.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from service.guard import keys
from tests.live.raw import request
from tests.live.server import ROOT, Server

RATE, OFFERED, WORKERS, CONNECTIONS = 100, 1000, 4, 64


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments):
    seconds = int(arguments[0]) if arguments else 10
    key, line = keys.make("limited", ["infer"], None, RATE)
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder), workers=WORKERS, pinion_api_keys=line, pinion_log_level="error") as server,
    ):
        pids = [*server.workers()]
        job = {
            "request": base64.b64encode(request(X_API_Key=key)).decode(), "connections": CONNECTIONS, "pids": pids,
            "port": server.port, "warm_up_s": 0.2, "rate": OFFERED, "seconds": seconds, "seed": 1,
        }  # fmt: skip
        command = [sys.executable, "-m", "bench.load"]
        done = subprocess.run(command, input=json.dumps(job), cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    answered, expected = measured["requests"] - measured["failures"], RATE * seconds
    say(f"{measured['requests']} offered in {seconds} s, {answered} answered, {expected} ± 5 % expected")
    say(f"{measured['cpu_us']:.0f} µs CPU a request, nearly all of them refused")
    return 0 if abs(answered - expected) <= expected * 0.05 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
