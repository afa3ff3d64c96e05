"""The load generator, a process of its own: closed loop, or Poisson arrivals with latency from the intended start.

Reads one job as JSON from its input and prints what it measured. One thread, one epoll, kept-alive connections with
one request under way each. It takes 10 to 20 µs a request: where a server needs less, its rate is this generator's,
and CPU time per request is the figure to look at.
"""

from __future__ import annotations

import base64
import json
import random
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_GRACE_S = 20.0
_COARSE_S = 0.002
_CHUNK_BYTES = 1 << 20


@dataclass
class Connection:
    """One kept-alive connection.

    Attributes:
        sock: non-blocking.
        began_s: when its request was due.
        unsent: what the socket has not taken.
        head: of the answer, as far as it has come.
        missing_bytes: of the answer's body; None while the head isn't whole.
    """

    sock: socket.socket
    began_s: float = 0.0
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    head: bytes = b""
    missing_bytes: int | None = None


class Generator:
    """Runs one job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._request = base64.b64decode(job["request"])
        self._poller = select.epoll()
        self._connections: dict[int, Connection] = {}
        for _ in range(job["connections"]):
            sock = socket.create_connection(("127.0.0.1", job["port"]))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            self._connections[sock.fileno()] = Connection(sock)
            self._poller.register(sock.fileno(), select.EPOLLIN)
        self._under_way = 0
        self.failures = 0

    def closed(self, until_s: float) -> list[tuple[float, float]]:
        """Every connection asks again as soon as it is answered; start and end of each request."""
        done: list[tuple[float, float]] = []
        for connection in self._connections.values():
            self._send(connection, time.perf_counter())
        while self._under_way:
            now_s = time.perf_counter()
            self._give_up(now_s - until_s)
            for connection in self._answered():
                now_s = time.perf_counter()
                done.append((connection.began_s, now_s))
                if now_s < until_s:
                    self._send(connection, now_s)
        return done

    def open(self, due_s: list[float]) -> list[tuple[float, float]]:
        """Asks when a request is due, on any free connection; latency counts from then."""
        done: list[tuple[float, float]] = []
        free = deque(self._connections.values())
        following, waiting = 0, deque[float]()
        while following < len(due_s) or waiting or self._under_way:
            now_s = time.perf_counter()
            self._give_up(now_s - due_s[-1])
            while following < len(due_s) and due_s[following] <= now_s:
                waiting.append(due_s[following])
                following += 1
            while waiting and free:
                self._send(free.popleft(), waiting.popleft())
            patience_s = due_s[following] - time.perf_counter() if following < len(due_s) else 1.0
            # A poll sleeps for whole milliseconds: the last two are spent looking.
            patience_s = patience_s - _COARSE_S if patience_s > _COARSE_S else 0.0
            for connection in self._answered(patience_s):
                done.append((connection.began_s, time.perf_counter()))
                free.append(connection)
        return done

    def _give_up(self, late_s: float) -> None:
        if late_s > _GRACE_S:
            sys.exit(f"{self._under_way} requests have no answer {_GRACE_S:g} s after the end")

    def _send(self, connection: Connection, began_s: float) -> None:
        connection.began_s, connection.head, connection.missing_bytes = began_s, b"", None
        self._under_way += 1
        connection.unsent = memoryview(self._request)
        self._push(connection)
        if connection.unsent:
            self._poller.modify(connection.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    @staticmethod
    def _push(connection: Connection) -> None:
        try:
            connection.unsent = connection.unsent[connection.sock.send(connection.unsent) :]
        except BlockingIOError:
            return

    def _answered(self, patience_s: float = 1.0) -> list[Connection]:
        """Connections whose answer is whole."""
        whole = []
        for fd, event in self._poller.poll(patience_s):
            connection = self._connections[fd]
            if event & select.EPOLLOUT:
                self._push(connection)
                if not connection.unsent:
                    self._poller.modify(fd, select.EPOLLIN)
            if event & ~select.EPOLLOUT and self._take(connection):
                self._under_way -= 1
                whole.append(connection)
        return whole

    def _take(self, connection: Connection) -> bool:
        data = connection.sock.recv(_CHUNK_BYTES)
        if not data:
            sys.exit("the server closed a connection with a request under way")
        if connection.missing_bytes is None:
            connection.head += data
            head, blank, body = connection.head.partition(b"\r\n\r\n")
            if not blank:
                return False
            self.failures += b" 200 " not in head[:16]
            connection.missing_bytes = int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
            data = body
        connection.missing_bytes -= len(data)
        return connection.missing_bytes <= 0


def cpu_ns(pids: list[int]) -> int:
    """CPU time of all threads of these processes, nanoseconds."""
    total = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(path.read_text().split()[0])
    return total


def main() -> None:
    """Warms up, measures, prints."""
    job = json.load(sys.stdin)
    generator = Generator(job)
    generator.closed(time.perf_counter() + job["warm_up_s"])
    generator.failures = 0
    began_cpu_ns, began_s = cpu_ns(job["pids"]), time.perf_counter()
    if job["rate"]:
        random_ = random.Random(job["seed"])
        due_s, at_s = [], began_s
        while (at_s := at_s + random_.expovariate(job["rate"])) < began_s + job["seconds"]:
            due_s.append(at_s)
        done = generator.open(due_s or [began_s])
    else:
        done = generator.closed(began_s + job["seconds"])
    last_s = max(end for _, end in done)
    spent_ns = cpu_ns(job["pids"]) - began_cpu_ns
    latency_ms = [(end - begin) * 1e3 for begin, end in done]
    p50, p99, p999 = np.percentile(latency_ms, [50, 99, 99.9])
    measured = {"requests": len(done), "rate": len(done) / (last_s - began_s), "cpu_us": spent_ns / 1e3 / len(done)}
    print(json.dumps(measured | {"p50_ms": p50, "p99_ms": p99, "p999_ms": p999, "failures": generator.failures}))


if __name__ == "__main__":
    main()
