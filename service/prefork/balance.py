"""Shares work between the workers: who accepts a connection, and who takes over one that would have to wait.

Each worker writes on the board how many connections it has and whether a model runs. A worker that has more than
the least loaded one leaves a new connection to it. While a run is long, requests that have arrived are handed to
a worker that is idle: the connection itself (SCM_RIGHTS) with the bytes that have been read.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple

from service.host.board import Board

_LARGEST_BYTES = 65_536
_HEADER = struct.Struct("<B")
_ONE_FD = array.array("i").itemsize


class HandedOver(NamedTuple):
    """A connection that another worker gave away.

    Attributes:
        sock: its socket.
        listener: index of the listener that accepted it.
        data: what had been read.
    """

    sock: socket.socket
    listener: int
    data: bytes


class Balance:
    """One worker's view of the others."""

    def __init__(self, board: Board, slot: int, folder: Path) -> None:
        """Opens the socket on which others hand over connections.

        Args:
            board: shared by all workers.
            slot: of this one.
            folder: private to the service; the sockets lie there.
        """
        self._board = board
        self._slot = slot
        self._folder = folder
        self._peers: list[int] = []
        self._running = 0
        self._connections = 0
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self._path(slot)
        path.unlink(missing_ok=True)
        self.inbox.bind(str(path))
        self.inbox.setblocking(False)
        board.write_load(slot, 0, 0)

    def refresh(self) -> None:
        """Learns which other workers are ready; called twice a second."""
        self._peers = [record.slot for record in self._board.ready() if record.slot != self._slot]

    def connections(self, count: int) -> None:
        """Tells the others how many connections this worker has."""
        self._connections = count
        self._board.write_load(self._slot, count, self._running)

    def runs(self, *, on: bool) -> None:
        """Tells the others whether a model runs here."""
        self._running = 1 if on else 0
        self._board.write_load(self._slot, self._connections, self._running)

    def leaves_it(self) -> bool:
        """Whether a new connection should be left to a worker that is idle and has fewer."""
        for slot in self._peers:
            load = self._board.read_load(slot)
            if not load.running and load.connections < self._connections:
                return True
        return False

    def idle_peer(self) -> int | None:
        """The idle worker with the fewest connections; None if all are busy."""
        idle = [(load.connections, slot) for slot in self._peers if not (load := self._board.read_load(slot)).running]
        return min(idle)[1] if idle else None

    def hand_over(self, slot: int, sock: socket.socket, listener: int, data: bytes) -> bool:
        """Gives a connection away; False if the other can't take it, and then it is still ours."""
        if len(data) > _LARGEST_BYTES:
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
        return True

    def receive(self) -> HandedOver | None:
        """A connection that was given to this worker; None if there is none."""
        try:
            message, ancillary, _, _ = self.inbox.recvmsg(
                _LARGEST_BYTES + _HEADER.size, socket.CMSG_SPACE(_ONE_FD), socket.MSG_DONTWAIT
            )
        except OSError:
            return None
        fds = [fd for _, _, raw in ancillary for fd in array.array("i", raw[:_ONE_FD])]
        if not fds or len(message) <= _HEADER.size:
            return None
        (listener,) = _HEADER.unpack_from(message)
        return HandedOver(socket.socket(fileno=fds[0]), listener, message[_HEADER.size :])

    def close(self) -> None:
        """Takes nothing over any more."""
        self.inbox.close()
        self._path(self._slot).unlink(missing_ok=True)

    def _path(self, slot: int) -> Path:
        return self._folder / f"handover-{slot}"


def run_folder() -> Path | None:
    """The folder that the workers of a master share; None without the fork hooks."""
    metrics = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return Path(metrics).parent if metrics else None
