"""How a worker parts with connections on which no request has begun: for balance, and when it stops."""

from __future__ import annotations

import select
from typing import Any

from service.prefork.connection import IDLE, Connection

_FRESH_S = 1.0


def share_out(exchange: Any) -> None:
    """Gives idle connections to a worker that has fewer; a worker that came late gets its share so."""
    balance = exchange.balance
    if balance is None:
        return
    slot, count = balance.surplus()
    if slot is None:
        return
    idle = (c for c in tuple(exchange.connections.values()) if c.state == IDLE and c.listener.tls is None)
    for connection, _ in zip(idle, range(count), strict=False):
        if not balance.hand_over(slot, connection.sock, connection.listener.index, b""):
            return
        exchange.close(connection)


def leave_idle(exchange: Any, poller: select.epoll, head_timeout_s: float) -> None:
    """Parts with every connection on which no request has begun: to another worker, or closes it.

    Args:
        exchange: of the worker that stops.
        poller: that watches its connections.
        head_timeout_s: patience with a new connection, from which its age follows.
    """
    idle = [
        c for c in exchange.connections.values() if c.state == IDLE and not _is_fresh(c, exchange.now_s, head_timeout_s)
    ]
    begun = {fd for fd, _ in poller.poll(0)} if idle else set()
    balance, taken = exchange.balance, exchange.balance is not None
    for connection in idle:
        if taken and connection.listener.tls is None:
            taken = balance.part_with(connection.sock, connection.listener.index)
            if taken:
                exchange.close(connection)
                continue
        # On the others a request may just have come; it is still answered.
        if connection.fd not in begun:
            exchange.close(connection)


def _is_fresh(connection: Connection, now_s: float, head_timeout_s: float) -> bool:
    """Whether it was opened moments ago: its client is about to send, and would not take an end for an idle one."""
    return not connection.began_s and now_s - (connection.deadline_s - head_timeout_s) < _FRESH_S
