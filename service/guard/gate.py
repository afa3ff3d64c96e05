"""Where a request is let in or refused: networks, limits, keys, in this order."""

from __future__ import annotations

from typing import Any

from service.errors import Forbidden, NotReady, Unauthorized
from service.guard.addresses import Addresses
from service.guard.keyring import Keyring
from service.guard.keys import Entry, Principal
from service.guard.limits import Limits
from service.settings import Settings

_BEARER = "bearer "
_ASK_FOR_KEY = (("WWW-Authenticate", 'Bearer realm="pinion"'),)
_HOW = "`X-API-Key: <id>.<secret>` or `Authorization: Bearer <id>.<secret>`"


class Gate:
    """What the settings ask of those who ask.

    Attributes:
        keyring: None where no key is needed.
        addresses: what is known of clients.
        limits: None where there are none.
        by_network: whether only some networks may ask.
    """

    def __init__(self, settings: Settings) -> None:
        path, text = settings.api_keys_file, settings.api_keys
        self.keyring = Keyring(path, text) if path or text else None
        self.limits = Limits(settings.key_requests_per_s, settings.address_requests_per_s)
        self.addresses = Addresses(settings.allowed_networks, self.limits.seed)
        self.by_network = bool(settings.allowed_networks)

    @classmethod
    def of(cls, settings: Settings) -> Gate | None:
        """The gate that the settings ask for; None where everyone may ask everything and nobody wants to know."""
        needs = (
            settings.api_keys_file,
            settings.api_keys,
            settings.allowed_networks,
            settings.address_requests_per_s,
            settings.audit_file,
        )
        return cls(settings) if any(needs) else None

    def look(self) -> None:
        """Follows the file of keys; called about once a second, not in the way of a request."""
        if self.keyring is not None:
            self.keyring.look()

    def prepay(self, *, on: bool) -> None:
        """Says that the request which comes next has been charged in the worker that handed it over."""
        self.limits.is_paid = on


class Visit:
    """One head at the gate. It may come again with other bodies: whose key it has is then known, right or wrong.

    Attributes:
        client: address of the one who asks.
        principal: whose key was shown; None for nobody's.
    """

    __slots__ = ("_client", "_entries", "_gate", "_model", "_presented", "_scope", "client", "principal")

    def __init__(self, gate: Gate, environ: dict[str, Any]) -> None:
        self._gate = gate
        self._client = gate.addresses.of(environ)
        self.client = self._client.text
        self.principal: Principal | None = None
        self._presented = _presented(environ)
        self._entries: dict[str, Entry] | None = None
        self._scope: str | None = ""
        self._model: str | None = None

    def admit(self, scope: str | None, model: str | None = None) -> None:
        """Lets a request in.

        Args:
            scope: that its key must have; None for any key.
            model: that it is about; None for no single one.

        Raises:
            Forbidden: the address, or the key, isn't good for it.
            TooManyRequests: the address or the key asks too often.
            Unauthorized: there is no key, or no valid one.
            NotReady: the keys could not be read.
        """
        gate = self._gate
        if gate.by_network and not self._client.allowed:
            raise Forbidden(f"requests from {self.client} are not answered here", received=self.client)
        if gate.limits.by_address:
            gate.limits.charge_address(self._client)
        keyring = gate.keyring
        if keyring is None:
            return
        if self._entries is not keyring.entries or self._entries is None:
            self._recognise(keyring)
        principal = self.principal
        if principal is None:
            raise self._unknown()
        if scope != self._scope or model is not self._model:
            self._check_rights(principal, scope, model)
        gate.limits.charge_key(principal)

    def may_see(self, model: str) -> bool:
        """Whether a model may be named to the one who asks."""
        return self._gate.keyring is None or (self.principal is not None and self.principal.may_use(model))

    def _recognise(self, keyring: Keyring) -> None:
        self.principal = None if self._presented is None else keyring.verify(self._presented)
        self._entries, self._scope = keyring.entries, ""
        if self._entries is None:
            raise NotReady(
                "the API keys of this service can't be read, so nobody is let in; its log has the reason",
                headers=(("Retry-After", "5"),),
            )

    def _unknown(self) -> Unauthorized:
        if self._presented is None:
            return Unauthorized(f"this needs an API key: send {_HOW}", headers=_ASK_FOR_KEY)
        return Unauthorized(f"the API key is not valid here; expected {_HOW}", headers=_ASK_FOR_KEY)

    def _check_rights(self, principal: Principal, scope: str | None, model: str | None) -> None:
        if scope is not None and scope not in principal.scopes:
            has = sorted(principal.scopes)
            raise Forbidden(
                f"the API key '{principal.key}' is good for {', '.join(has)}; this needs the scope {scope}",
                expected=scope,
                received=has,
            )
        if model is not None and not principal.may_use(model):
            raise Forbidden(f"the API key '{principal.key}' is not good for the model '{model}'", received=model)
        self._scope, self._model = scope, model


def _presented(environ: dict[str, Any]) -> str | None:
    """The key of a request: the field that is only ours before the one that a proxy may use for itself."""
    key: str | None = environ.get("HTTP_X_API_KEY")
    if key is None:
        text: str = environ.get("HTTP_AUTHORIZATION", "")
        key = text[len(_BEARER) :].strip() if text[: len(_BEARER)].lower() == _BEARER else None
    return key
