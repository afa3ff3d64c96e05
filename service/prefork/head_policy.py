"""gunicorn's settings about request heads, resolved once a process."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import Any

from gunicorn.http.wsgi import base_environ

from service.errors import ConfigurationError

_MOST_LINE_BYTES = 8190
_MOST_FIELDS = 32_768
_DEFAULT_FIELD_BYTES = 8190

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPolicy:
    """What a head may be, and what an environ says of it. Names without a comment are gunicorn's own.

    Attributes:
        limit_request_line: in bytes; 0 for none.
        limit_request_fields: number of fields.
        limit_request_field_size: of one field in bytes, its line end included.
        limit_head_bytes: of all fields together, while they arrive.
        trusts_all: whether every peer may set forwarding fields.
        networks: of the peers that may.
        script_name: the environment variable `SCRIPT_NAME`.
        environ: the part of an environ that is the same for every request.
    """

    limit_request_line: int
    limit_request_fields: int
    limit_request_field_size: int
    limit_head_bytes: int
    trusts_all: bool
    networks: tuple[Network, ...]
    secure_scheme_headers: dict[str, str]
    forwarder_headers: frozenset[str]
    header_map: str
    permit_obsolete_folding: bool
    strip_header_spaces: bool
    permit_unconventional_http_method: bool
    permit_unconventional_http_version: bool
    casefold_http_method: bool
    script_name: str
    environ: dict[str, Any]

    @classmethod
    def of(cls, cfg: Any) -> HeadPolicy:
        """Resolves a `gunicorn.config.Config`.

        Raises:
            ConfigurationError: a setting that this parser doesn't offer.
        """
        if cfg.proxy_protocol != "off":
            raise ConfigurationError([_NO_PROXY_PROTOCOL.format(cfg.proxy_protocol)])
        fields, field_bytes = _field_limits(cfg)
        allowed = cfg.forwarded_allow_ips
        return cls(
            limit_request_line=_line_limit(cfg.limit_request_line),
            limit_request_fields=fields,
            limit_request_field_size=field_bytes,
            limit_head_bytes=fields * (field_bytes + 2) + 4,
            trusts_all="*" in allowed,
            networks=tuple(ipaddress.ip_network(address) for address in allowed if address != "*"),
            secure_scheme_headers=dict(cfg.secure_scheme_headers),
            forwarder_headers=frozenset(cfg.forwarder_headers),
            header_map=cfg.header_map,
            permit_obsolete_folding=cfg.permit_obsolete_folding,
            strip_header_spaces=cfg.strip_header_spaces,
            permit_unconventional_http_method=cfg.permit_unconventional_http_method,
            permit_unconventional_http_version=cfg.permit_unconventional_http_version,
            casefold_http_method=cfg.casefold_http_method,
            script_name=os.environ.get("SCRIPT_NAME", ""),
            environ={**base_environ(cfg), "wsgi.url_scheme": "https" if cfg.is_ssl else "http"},
        )

    @property
    def is_strict(self) -> bool:
        """Whether field lines must be what RFC 9112 section 5 says, to the letter."""
        return not (self.permit_obsolete_folding or self.strip_header_spaces)

    def trusts(self, peer: Any) -> bool:
        """Whether a peer may set forwarding fields; one on a Unix socket always may.

        Args:
            peer: what `accept` gave as the address.
        """
        if self.trusts_all or not isinstance(peer, tuple):
            return True
        try:
            address = ipaddress.ip_address(peer[0])
        except ValueError:
            return False
        return any(address in network for network in self.networks)


_NO_PROXY_PROTOCOL = (
    "proxy_protocol is {!r}, and service.prefork.worker.GatherWorker doesn't read the PROXY protocol: "
    'set it to "off", or take worker_class = "gthread"'
)


def _line_limit(limit: int) -> int:
    """As gunicorn reads it: 0 is no limit, and nothing is above 8190."""
    return min(limit, _MOST_LINE_BYTES) if limit >= 0 else _MOST_LINE_BYTES


def _field_limits(cfg: Any) -> tuple[int, int]:
    """Number and size of fields as gunicorn reads them: 0 is the most there may be."""
    fields, field_bytes = cfg.limit_request_fields, cfg.limit_request_field_size
    if not 0 < fields <= _MOST_FIELDS:
        fields = _MOST_FIELDS
    return fields, field_bytes if field_bytes > 0 else _DEFAULT_FIELD_BYTES
