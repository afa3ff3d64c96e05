"""Rates that each key and each address may not exceed, over all workers."""

from __future__ import annotations

import os
import time

from service.errors import TooManyRequests
from service.guard.addresses import Client
from service.guard.keys import Principal
from service.host import place
from service.host.meters import BURST_NS, Meters

_SECOND_NS = 1_000_000_000


class Limits:
    """The limits of the settings.

    Attributes:
        by_address: whether addresses have one.
        is_paid: whether the request in hand has taken its tokens already, in the worker that handed it over.
    """

    def __init__(self, key_requests_per_s: float | None, address_requests_per_s: float | None) -> None:
        self._key_requests_per_s = key_requests_per_s
        self._address_requests_per_s = address_requests_per_s or 0.0
        self.by_address = address_requests_per_s is not None
        self.is_paid = False
        self._meters: Meters | None = None
        self._slot = 0
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._meters = None

    def seed(self) -> bytes:
        """The key of the hashes that name meters."""
        return self._shared().seed

    def requests_per_s(self, principal: Principal) -> float | None:
        """The limit of a key; None for none."""
        return principal.requests_per_s or self._key_requests_per_s

    def charge_key(self, principal: Principal) -> None:
        """Counts a request of a key.

        Raises:
            TooManyRequests: it is one too many.
        """
        rate = self.requests_per_s(principal)
        if rate is None or self.is_paid:
            return
        now_ns = time.monotonic_ns()
        wait_ns = self._shared().take(principal.row, self._slot, int(_SECOND_NS / rate), now_ns)
        if wait_ns:
            raise _too_many(f"the API key '{principal.key}'", rate, wait_ns)

    def charge_address(self, client: Client) -> None:
        """Counts a request from an address.

        Raises:
            TooManyRequests: it is one too many.
        """
        if self.is_paid:
            return
        now_ns, meters, rate = time.monotonic_ns(), self._shared(), self._address_requests_per_s
        row = meters.row_of(client.tag, now_ns)
        wait_ns = meters.take(row, self._slot, int(_SECOND_NS / rate), now_ns)
        if wait_ns:
            raise _too_many(f"the address {client.text or 'of this machine'}", rate, wait_ns)

    def _shared(self) -> Meters:
        if self._meters is None:
            here = place.current()
            self._slot = here.slot or 0
            self._meters = here.meters or Meters()
        return self._meters


def _too_many(who: str, rate: float, wait_ns: int) -> TooManyRequests:
    # The header takes whole seconds only.
    after_s = -(-wait_ns // _SECOND_NS)
    burst = max(1.0, rate * BURST_NS / _SECOND_NS)
    return TooManyRequests(
        f"{who} may ask {rate:g} times a second, {burst:g} at once; there is room again in {wait_ns / 1e9:.3f} s",
        expected=rate,
        headers=(("Retry-After", str(after_s)),),
    )
