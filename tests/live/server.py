"""A real gunicorn for tests: started from the repository as a user would, stopped whatever happens."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_START_S, _STOP_S = 60, 25


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One service on its own port; `with Server(...) as server:`."""

    def __init__(
        self,
        folder,
        *arguments,
        models=None,
        workers=1,
        wait="/v2/health/ready",
        app="wsgi:app",
        python=sys.executable,
        **settings,
    ):
        """Writes its log into `folder`; keyword arguments become environment variables, upper-cased."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.wait = wait
        self.log_path = Path(folder) / f"gunicorn-{self.port}.log"
        self._command = [
            str(python), "-m", "gunicorn", app, "--bind", f"127.0.0.1:{self.port}", "--workers", str(workers),
            *arguments,
        ]  # fmt: skip
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PINION_", "PROMETHEUS_"))}
        self._environ = {**inherited, "PINION_MODELS": str(models or ROOT / "models"), "PYTHONPATH": str(ROOT)}
        self._environ.update({name.upper(): str(value) for name, value in settings.items()})
        self.process = None

    def start(self):
        """Starts it and waits until its probe answers 200."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=ROOT, env=self._environ, stdout=log, stderr=log)
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                raise RuntimeError(f"gunicorn ended with {self.process.returncode}:\n{self.log()}")
            if self.wait is None or self.status(self.wait) in (200, 204):
                return self
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"gunicorn wasn't ready in {_START_S} s:\n{self.log()}")

    def stop(self):
        """SIGTERM, later SIGKILL; returns the exit code."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                for pid in (*self.workers(), self.process.pid):
                    os.kill(pid, signal.SIGKILL)
                self.process.wait(_STOP_S)
        return self.process.returncode

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        """Of the master."""
        return self.process.pid

    def workers(self):
        """Process ids of the living workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children]

    def log(self):
        """Everything logged so far."""
        return self.log_path.read_text(errors="replace")

    def status(self, path):
        """Status of a GET; None if nobody answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return None

    def get(self, path):
        """Body of a GET."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read()

    def json(self, path):
        """JSON of a GET."""
        return json.loads(self.get(path))

    def post(self, path, body, **headers):
        """Status, headers and body of a POST; `body` is bytes, or becomes JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=data, headers=names, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()


def wait_for(condition, seconds=15.0):
    """Waits until a condition holds; returns its value, fails after so many seconds."""
    deadline_s = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"it didn't come true within {seconds} s")
        time.sleep(0.02)
    return value
