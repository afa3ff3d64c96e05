import ipaddress

import pytest

from service.guard.addresses import Addresses


def of(remote, forwarded=None, trusted=("127.0.0.1", "10.0.0.0/8"), allowed=()):
    known = Addresses(tuple(map(ipaddress.ip_network, allowed)), lambda: b"seed")
    known.trust(trusted)
    environ = {"REMOTE_ADDR": remote} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})
    assert known.of(environ) is known.of(environ)
    return known.of(environ)


@pytest.mark.parametrize(
    ("remote", "forwarded", "client"),
    [
        ("192.0.2.7", None, "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "203.0.113.5, 198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "198.51.100.1, 10.1.2.3,10.0.0.9", "198.51.100.1"),
        ("127.0.0.1", "10.0.0.1, 10.0.0.9", "10.0.0.1"),
        ("127.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("127.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("127.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("127.0.0.1", "unknown, 10.0.0.9", "10.0.0.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("::ffff:192.0.2.7", None, "192.0.2.7"),
        ("", "198.51.100.1", "198.51.100.1"),
        ("", None, ""),
    ],
)
def test_the_client_is_the_first_who_is_no_trusted_proxy(remote, forwarded, client):
    assert of(remote, forwarded).text == client


def test_all_may_be_trusted():
    assert of("192.0.2.7", "198.51.100.1, 203.0.113.5", trusted=("*",)).text == "198.51.100.1"


@pytest.mark.parametrize(
    ("remote", "forwarded", "allowed"),
    [
        ("192.0.2.7", None, True),
        ("192.0.3.7", None, False),
        ("192.0.3.7", "192.0.2.7", False),
        ("127.0.0.1", "192.0.2.7", True),
        ("127.0.0.1", "192.0.3.7", False),
        ("2001:db8::5", None, True),
        ("not an address", None, False),
        ("", None, True),
    ],
)
def test_only_the_networks_may_ask(remote, forwarded, allowed):
    assert of(remote, forwarded, allowed=("192.0.2.0/24", "2001:db8::/32")).allowed is allowed
    assert of(remote, forwarded).allowed is True


def test_a_subscriber_has_one_meter():
    assert of("2001:db8::1").tag == of("2001:db8::ffff:2").tag != of("2001:db8:0:1::1").tag
    assert of("192.0.2.7").tag != of("192.0.2.8").tag


def test_many_clients_take_no_more_room():
    known = Addresses((), lambda: b"seed")
    for number in range(10_000):
        known.of({"REMOTE_ADDR": str(ipaddress.ip_address(number))})
    assert len(known._known) <= 4096
