import pytest
from gunicorn.config import Config

from service.prefork.head_policy import HeadPolicy
from service.prefork.origin import Origins, host_environ


class SocketName:
    def __init__(self, name):
        self.name = name


def origins():
    return Origins(HeadPolicy.of(Config()))


def test_tcp_names_both_ends():
    origin = origins()[("192.0.2.7", 5), SocketName(("127.0.0.1", 80))]
    assert origin.environ == {
        "REMOTE_ADDR": "192.0.2.7",
        "REMOTE_PORT": "5",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
    }
    assert origin.socket is None


@pytest.mark.parametrize("peer", ["", b""])
def test_a_unix_socket_has_no_ports(peer):
    origin = origins()[peer, SocketName("/run/a.sock")]
    assert origin.environ == {"REMOTE_ADDR": "", "pinion.socket": "/run/a.sock"}
    assert origin.socket == {"SERVER_NAME": "/run/a.sock", "SERVER_PORT": ""}


def test_clients_share_what_is_known_of_their_kind_only():
    known, tcp = origins(), SocketName(("127.0.0.1", 80))
    stranger, other, proxy = (known[(address, 1), tcp] for address in ("192.0.2.7", "192.0.2.8", "127.0.0.1"))
    assert stranger.heads is other.heads
    assert stranger.fields is other.fields
    assert stranger.heads is not proxy.heads
    assert stranger.fields is not proxy.fields
    assert proxy.heads is not known["", SocketName("/run/a.sock")].heads


def test_many_clients_take_no_more_room():
    known, tcp = origins(), SocketName(("127.0.0.1", 80))
    for port in range(10_000):
        assert known[("192.0.2.7", port), tcp].environ["REMOTE_PORT"] == str(port)
    assert len(known) <= 4096


@pytest.mark.parametrize(
    ("host", "scheme", "name", "port"),
    [
        ("a", "http", "a", "80"),
        ("a", "https", "a", "443"),
        ("a:81", "http", "a", "81"),
        ("a:", "http", "a", ""),
        ("[::1]", "https", "[::1]", "443"),
        ("[::1]:81", "http", "[::1]", "81"),
    ],
)
def test_the_host_field_names_a_unix_socket(host, scheme, name, port):
    assert host_environ(host, scheme) == {"SERVER_NAME": name, "SERVER_PORT": port}
