import pytest
from gunicorn.config import Config

from service.errors import ConfigurationError
from service.prefork.head_policy import HeadPolicy


def policy(**settings):
    cfg = Config()
    for name, value in settings.items():
        cfg.set(name, value)
    return HeadPolicy.of(cfg)


def test_gunicorns_defaults_are_ours():
    default = policy()
    assert (default.limit_request_line, default.limit_request_fields) == (4094, 100)
    assert (default.limit_request_field_size, default.limit_head_bytes) == (8190, 100 * 8192 + 4)
    assert default.is_strict


def test_zero_means_the_most_there_may_be():
    open_policy = policy(limit_request_line=0, limit_request_fields=0, limit_request_field_size=0)
    assert (open_policy.limit_request_line, open_policy.limit_request_fields) == (0, 32_768)
    assert open_policy.limit_request_field_size == 8190
    assert policy(limit_request_line=9000).limit_request_line == 8190


@pytest.mark.parametrize(
    ("allowed", "peer", "trusted"),
    [
        ("127.0.0.1,::1", ("127.0.0.1", 1), True),
        ("127.0.0.1,::1", ("::1", 1, 0, 0), True),
        ("127.0.0.1", ("127.0.0.2", 1), False),
        ("10.0.0.0/8", ("10.1.2.3", 1), True),
        ("10.0.0.0/8", ("11.1.2.3", 1), False),
        ("127.0.0.1", ("not an address", 1), False),
        ("*", ("not an address", 1), True),
        ("127.0.0.1", "", True),
        ("127.0.0.1", "/tmp/client.sock", True),
    ],
)
def test_a_peer_is_trusted_by_its_address(allowed, peer, trusted):
    assert policy(forwarded_allow_ips=allowed).trusts(peer) is trusted


@pytest.mark.parametrize("mode", ["v1", "v2", "auto"])
def test_the_proxy_protocol_is_refused_with_the_way_out(mode):
    with pytest.raises(ConfigurationError, match=r"(?s)proxy_protocol is .*gthread"):
        policy(proxy_protocol=mode)


def test_lenient_settings_are_known_as_such():
    assert not policy(permit_obsolete_folding=True).is_strict
    assert not policy(strip_header_spaces=True).is_strict
