"""Shares work between the workers: who accepts a connection, and who takes over one that would have to wait.

Each worker writes on the board how many connections it has and whether a long run is on. One that has more than
another leaves a new connection to it for a moment. While a run is long, what arrives and what waits is handed to a
worker that is idle: the connection itself (SCM_RIGHTS) with the bytes that have been read. For runs that are not
long nothing is written and nothing handed over.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import termios
import time
from pathlib import Path
from typing import NamedTuple

from service.host.board import Board, State

LARGEST_BYTES = 65_536
"""Of a request that can be handed over: what a datagram socket takes with its default buffer."""

_HEADER = struct.Struct("<B")
_INT = struct.Struct("i")
_ONE_FD = array.array("i").itemsize
_LONG_RUN_S = 0.002
_MOST_PATHS = 256
_LAST_LOOK_S = 0.1
_RUN_WEIGHT = 2
_SETTLES_S, _GIVES_UP_S = 0.003, 0.5
_TRIES, _INBOX_READ_S = 20, 0.001
_SMALL_DIFFERENCE, _MOST_AT_ONCE = 4, 8


class HandedOver(NamedTuple):
    """A connection that another worker gave away.

    Attributes:
        sock: its socket.
        listener: index of the listener that accepted it.
        data: what had been read; empty if nothing had.
    """

    sock: socket.socket
    listener: int
    data: bytes


class LongRuns:
    """Which requests lead to long runs, learned from the last run of each path."""

    __slots__ = ("_paths",)

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def expected(self, path: str) -> bool:
        """Whether the last run for this path was long."""
        return path in self._paths

    def learn(self, path: str, took_s: float) -> None:
        """Takes note of a run."""
        if took_s > _LONG_RUN_S:
            if len(self._paths) >= _MOST_PATHS:
                self._paths.clear()
            self._paths.add(path)
        elif path in self._paths:
            self._paths.discard(path)


class Balance:
    """One worker's view of the others.

    Attributes:
        inbox: the socket on which others hand over connections.
        long_runs: of this worker.
        in_long_run: what the others are told.
    """

    def __init__(self, board: Board, slot: int, folder: Path, service: str) -> None:
        """Opens the inbox.

        Args:
            board: shared by all workers.
            slot: of this one.
            folder: private to the service; the sockets lie there.
            service: names the master; after SIGUSR2 two share the folder, each with a board of its own.
        """
        self._board = board
        self._slot = slot
        self._folder, self._service = folder, service
        self._peers: list[int] = []
        self._looked_s = 0.0
        self._given_s: dict[int, float] = {}
        self._connections = 0
        self.in_long_run = False
        self.long_runs = LongRuns()
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self._path(slot)
        path.unlink(missing_ok=True)
        self.inbox.bind(str(path))
        self.inbox.setblocking(False)
        board.write_load(slot, 0, 0)

    def refresh(self) -> None:
        """Learns which other workers are ready."""
        self._looked_s = time.monotonic()
        self._peers = [record.slot for record in self._board.ready() if record.slot != self._slot]

    def connections(self, count: int) -> None:
        """Tells the others how many connections this worker has."""
        self._connections = count
        self._board.write_load(self._slot, count, int(self.in_long_run))

    def long_run(self, *, on: bool) -> None:
        """Tells the others whether this worker is in a long run, and will be for a while."""
        if on is not self.in_long_run:
            self.in_long_run = on
            self._board.write_load(self._slot, self._connections, int(on))

    def expects_long(self, path: str) -> bool:
        """Whether a run for this path will be long, and others are there who could take what it makes wait."""
        return bool(self._peers) and self.long_runs.expected(path)

    def leaves_it(self) -> bool:
        """Whether a new connection should be left to a worker that has less to do."""
        if time.monotonic() - self._looked_s > _LAST_LOOK_S:
            self.refresh()
        own = self._connections + _RUN_WEIGHT * self.in_long_run
        for slot in self._peers:
            load = self._board.read_load(slot)
            if load.connections + _RUN_WEIGHT * load.running < own:
                return True
        return False

    def idle_peer(self) -> int | None:
        """The worker with the fewest connections that is not in a long run; None if all are.

        One that has just been given a connection counts as busy until it had time to begin its run.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s > _LAST_LOOK_S:
            self.refresh()
        idle = []
        for slot in self._peers:
            load = self._board.read_load(slot)
            if not load.running and not self._is_taking(slot, now_s):
                idle.append((load.connections, slot))
        best = min(idle)[1] if idle else None
        return best if best is not None and self._board.read(best).state is State.READY else None

    def _is_taking(self, slot: int, now_s: float) -> bool:
        waited_s = now_s - self._given_s.get(slot, 0.0)
        return waited_s < _SETTLES_S or (waited_s < _GIVES_UP_S and self._has_unread())

    def _has_unread(self) -> bool:
        """Whether something that this worker gave away lies in an inbox still (unix(7), SIOCOUTQ)."""
        (unread_bytes,) = _INT.unpack(fcntl.ioctl(self.inbox.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))
        return bool(unread_bytes)

    def hand_over(self, slot: int, sock: socket.socket, listener: int, data: bytes) -> bool:
        """Gives a connection away; False if the other can't take it, and then it is still ours."""
        if len(data) > LARGEST_BYTES:
            return False
        fds = array.array("i", [sock.fileno()])
        try:
            self.inbox.sendmsg(
                [_HEADER.pack(listener), data],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)],
                socket.MSG_DONTWAIT,
                str(self._path(slot)),
            )
        except OSError:
            return False
        finally:
            self._given_s[slot] = time.monotonic()
        return True

    def part_with(self, sock: socket.socket, listener: int) -> bool:
        """Gives an idle connection of a worker that stops to one that stays; False if none does or can take it."""
        for _ in range(_TRIES):
            slot, _ = self._least_connected()
            if slot is None:
                return False
            if self.hand_over(slot, sock, listener, b""):
                return True
            # An inbox holds ten or so; it is read within moments.
            time.sleep(_INBOX_READ_S)
        return False

    def is_succeeded(self) -> bool:
        """Whether no other worker is ready and one is booting."""
        states = [record.state for record in self._board.living() if record.slot != self._slot]
        return State.READY not in states and State.BOOTING in states

    def surplus(self) -> tuple[int | None, int]:
        """How many connections this worker should give away, and to whom.

        It gives the part of the difference that is left if all others do the same, and nothing for a small one.
        """
        slot, fewest = self._least_connected()
        difference = self._connections - fewest
        if slot is None or difference < max(_SMALL_DIFFERENCE, self._connections // 4):
            return None, 0
        return slot, min(difference // (len(self._peers) + 1), _MOST_AT_ONCE)

    def _least_connected(self) -> tuple[int | None, int]:
        if time.monotonic() - self._looked_s > _LAST_LOOK_S:
            self.refresh()
        ready = [slot for slot in self._peers if self._board.read(slot).state is State.READY]
        loads = [(self._board.read_load(slot).connections, slot) for slot in ready]
        fewest, slot = min(loads, default=(0, None))
        return slot, fewest

    def receive(self) -> HandedOver | None:
        """A connection that was given to this worker; None if there is none."""
        while True:
            try:
                message, ancillary, _, _ = self.inbox.recvmsg(
                    LARGEST_BYTES + _HEADER.size,
                    socket.CMSG_SPACE(_ONE_FD),
                    socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
                )
            except OSError:
                return None
            fds = [fd for _, _, raw in ancillary for fd in array.array("i", raw[:_ONE_FD])]
            # Without one, this process has no file number left, and the kernel has closed the connection.
            if fds and message:
                (listener,) = _HEADER.unpack_from(message)
                return HandedOver(socket.socket(fileno=fds[0]), listener, message[_HEADER.size :])

    def retire(self) -> None:
        """Lets nobody hand over anything any more; what has been sent can still be received."""
        self._path(self._slot).unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the inbox."""
        self.retire()
        self.inbox.close()

    def _path(self, slot: int) -> Path:
        return self._folder / f"handover-{self._service}-{slot}"


def run_folder() -> Path | None:
    """The folder that the workers of a master share; None without the fork hooks."""
    metrics = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return Path(metrics).parent if metrics else None
