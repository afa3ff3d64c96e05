"""A gunicorn with the shipped configuration and a tiny application that tells its place."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from service.host import affinity
from service.host.cgroup import parse_cpu_list
from service.host.topology import read_machine

ROOT = Path(__file__).parents[2]
CONF = ROOT / "gunicorn.conf.py"
CPUS = sorted(os.sched_getaffinity(0))
CORES = len(read_machine().cores)
DEADLINE_S = 20
APP = """
import json, os, pathlib, time
from service.host import place

opened = []

def app(environ, start_response):
    while environ["PATH_INFO"] == "/wait" and not pathlib.Path("go").exists():
        time.sleep(0.01)
    here = place.current()
    board = [[record.slot, record.pid, record.state.name, record.deal.lane] for record in here.board.living()]
    facts = {"pid": os.getpid(), "slot": here.slot, "metrics_id": here.metrics_id, "cpus": here.lane_cpus,
             "threads": here.threads, "board": board, "opened": opened,
             "metrics": os.environ["PROMETHEUS_MULTIPROC_DIR"]}
    body = json.dumps(facts).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]

app.pinion_open = lambda: opened.append(place.current().board.read(place.current().slot).state.name)
"""


def until(true):
    """Waits until a check holds; its last value is what it returns."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := true()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return value


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Service:
    """A running gunicorn with the shipped configuration."""

    def __init__(self, process, log):
        self.process = process
        self.log = log

    @property
    def address(self):
        listening = until(lambda: re.search(r"Listening at: http://(\S+)", self.log.read_text()))
        return f"http://{listening[1]}"

    def ask(self, path="/"):
        with urllib.request.urlopen(self.address + path, timeout=DEADLINE_S) as response:
            return json.load(response)

    def plan(self):
        """The lanes that were printed last."""
        printed = re.findall(r"Lane (\d+): CPUs (\S+), threads (\d+)", self.log.read_text())
        start = max((n for n, lane in enumerate(printed) if lane[0] == "0"), default=0)
        return [(sorted(parse_cpu_list(cpus)), int(threads)) for _, cpus, threads in printed[start:]]

    def masks(self):
        """One mask for each worker, or None if the threads of one differ or it is just going."""
        masks = []
        for worker in children(self.process.pid):
            try:
                of_threads = set(affinity.read_masks(worker).values())
            except ProcessLookupError:
                return None
            if len(of_threads) != 1:
                return None
            masks.append(sorted(of_threads.pop()))
        return sorted(masks)

    def ready(self):
        """Records of the board, if every worker is ready."""
        board = self.ask()["board"]
        return board if all(state == "READY" for _, _, state, _ in board) else None

    def follows_its_plan(self, workers):
        """Whether, after a while, all workers are ready and sit on the lanes as printed, one on each."""

        def holds():
            lanes, board = sorted(cpus for cpus, _ in self.plan()), self.ready()
            is_dealt = board and sorted(lane for *_, lane in board) == list(range(workers))
            return is_dealt and len(lanes) == workers and self.masks() == lanes

        return until(holds)

    def signal(self, name):
        self.process.send_signal(signal.Signals[f"SIG{name}"])


@contextmanager
def service(folder, *arguments, before=(), conf=CONF, **environment):
    """Starts gunicorn on a free port, stops it and all its workers."""
    (folder / "tiny.py").write_text(APP)
    log = folder / "log"
    command = [*before, sys.executable, "-m", "gunicorn", "-c", conf, "-b", "127.0.0.1:0", *arguments, "tiny:app"]
    names = ("PATH", "HOME", "LANG", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
    given = (
        {name: os.environ[name] for name in names if name in os.environ}
        | {"PYTHONPATH": str(ROOT), "PINION_MODELS": str(ROOT / "models")}
        | environment
    )
    with log.open("wb") as output, subprocess.Popen(command, cwd=folder, env=given, stderr=output) as process:
        try:
            yield Service(process, log)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(DEADLINE_S)
            process.kill()
