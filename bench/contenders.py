"""What is measured: this service, plain Flask, and the bare loop, each on the cores it is given."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import ROOT, Array, Model

_START_S, _STOP_S = 60.0, 15.0


def http_request(path: str, body: bytes, more: str = "") -> bytes:
    """The bytes of one POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Served:
    """A server that was started for one model."""

    name = ""
    shown = ""

    def __init__(self, model: Model, folder: Path, cpus: set[int]) -> None:
        """Starts it on these CPUs, one worker for each; logs into `folder`."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.model = model
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PINION_")}
        command = [sys.executable, "-m", "gunicorn", *self.arguments(len(cpus)), "-b", f"127.0.0.1:{self.port}"]
        self.log = folder / f"{self.name}-{model.name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=inherited | self.environ(),
                stdout=log,
                stderr=log,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            )

    def arguments(self, workers: int) -> list[str]:
        """Of gunicorn."""
        raise NotImplementedError

    def environ(self) -> dict[str, str]:
        """Variables on top of those that are there."""
        return {"PINION_MODELS": str(self.model.repository)}

    def request(self, form: str) -> bytes:
        """One request, as `json` or `binary`."""
        raise NotImplementedError

    def outputs(self, form: str, head: bytes, body: bytes) -> dict[str, Array]:
        """The arrays of an answer by output name."""
        raise NotImplementedError

    def wait(self) -> None:
        """Until it answers; ends the program if it doesn't."""
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/ready", timeout=5).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        self.stop()
        sys.exit(f"{self.name} did not start for {self.model.name}:\n{self.log.read_text(errors='replace')}")

    def verify(self, form: str) -> int:
        """Asks once and compares with the model; returns the size of the answer's body in bytes."""
        with socket.create_connection(("127.0.0.1", self.port), _START_S) as sock, sock.makefile("rb") as stream:
            sock.sendall(self.request(form))
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += stream.readline()
            size_bytes = int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
            body = stream.read(size_bytes)
        if b" 200 " not in head.split(b"\r\n")[0]:
            sys.exit(f"{self.name} answers {head!r} {body[:500]!r}")
        answered = self.outputs(form, head, body)
        for name, expected in self.model.outputs.items():
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(answered[name].reshape(expected.shape), expected, rtol=1e-3, atol=1e-5)
        return size_bytes

    def pids(self) -> list[int]:
        """Of the master and its workers."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Service(Served):
    """This service as shipped."""

    name, shown = "service", "this service"

    def arguments(self, workers: int) -> list[str]:
        """The shipped gunicorn.conf.py applies."""
        return ["wsgi:app", "-w", str(workers)]

    def request(self, form: str) -> bytes:
        """An inference request of the Open Inference Protocol."""
        inputs, tail = [], []
        for name, array in self.model.feeds.items():
            tensor: dict[str, Any] = {"name": name, "shape": list(array.shape)}
            tensor["datatype"] = "FP32" if array.dtype.kind == "f" else "INT64"
            if form == "json":
                tensor["data"] = array.ravel().tolist()
            else:
                tensor["parameters"] = {"binary_data_size": array.nbytes}
                tail.append(array.tobytes())
            inputs.append(tensor)
        document: dict[str, Any] = {"inputs": inputs, "outputs": [{"name": name} for name in self.model.outputs]}
        if form == "binary":
            document["parameters"] = {"binary_data_output": True}
        text = json.dumps(document).encode()
        more = "" if form == "json" else f"Inference-Header-Content-Length: {len(text)}\r\n"
        return http_request(f"/v2/models/{self.model.name}/infer", text + b"".join(tail), more)

    def outputs(self, form: str, head: bytes, body: bytes) -> dict[str, Array]:
        """The arrays of the answer; strings as they stand."""
        if form == "json":
            return {tensor["name"]: np.array(tensor["data"]) for tensor in json.loads(body)["outputs"]}
        at = int(head.lower().partition(b"inference-header-content-length:")[2].split(b"\r\n")[0])
        found = {}
        for tensor in json.loads(body[:at])["outputs"]:
            size_bytes = tensor["parameters"]["binary_data_size"]
            if tensor["datatype"] == "FP32":
                found[tensor["name"]] = np.frombuffer(body[at : at + size_bytes], np.float32)
            at += size_bytes
        return found


class PlainFlask(Served):
    """`bench/plain_flask.py` under gunicorn's gthread, as a careful person would deploy it."""

    name, shown = "flask", "Flask + gthread"

    def arguments(self, workers: int) -> list[str]:
        """Four threads, kept-alive connections, no access log."""
        options = ["-w", str(workers), "-k", "gthread", "--threads", "4", "--keep-alive", "75"]
        return ["-c", os.devnull, "bench.plain_flask:app", *options]

    def environ(self) -> dict[str, str]:
        """Where the model lies."""
        return {"BENCH_MODEL": str(self.model.path)}

    def request(self, form: str) -> bytes:
        """Nested lists by input name; there is no binary form."""
        inputs = {name: array.tolist() for name, array in self.model.feeds.items()}
        return http_request("/predict", json.dumps({"inputs": inputs}).encode())

    def outputs(self, form: str, head: bytes, body: bytes) -> dict[str, Array]:
        """The arrays of the answer."""
        return {name: np.array(data) for name, data in json.loads(body)["outputs"].items()}


class Bare:
    """The bare loop in a process of its own on one CPU."""

    shown = "bare loop"

    def __init__(self, model: Model, cpu: int) -> None:
        arguments = [sys.executable, "-m", "bench.bare", str(model.path)]
        self.process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )

    def measure(self, seconds: float) -> dict[str, float]:
        """Runs the model for so long."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("started with pipes")
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        found: dict[str, float] = json.loads(self.process.stdout.readline())
        return found

    def stop(self) -> None:
        """Closes its input, at which it ends."""
        self.process.communicate()
