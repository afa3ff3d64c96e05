import pytest

from service.host.listening import OperatorsAddress


@pytest.mark.parametrize(
    ("bind", "name", "same"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100), True),
        ("localhost:9100", ("127.0.0.1", 9100), True),
        ("127.0.0.1:9100", ("127.0.0.1", 9101), False),
        ("127.0.0.1:9100", ("192.0.2.7", 9100), False),
        ("0.0.0.0:9100", ("0.0.0.0", 9100), True),
        ("0.0.0.0:9100", ("192.0.2.7", 9100), True),
        ("[::1]:9100", ("::1", 9100, 0, 0), True),
        ("no.such.host.invalid:9100", ("127.0.0.1", 9100), False),
        ("unix:/run/a", "/run/a", True),
        ("unix:/run/a", b"/run/a", True),
        ("unix:/run/a", "/run/b", False),
        ("unix:/run/a", ("127.0.0.1", 9100), False),
        ("127.0.0.1:9100", "/run/a", False),
        ("127.0.0.1:0", ("127.0.0.1", 0), False),
        (None, ("", 0), False),
    ],
)
def test_whether_an_address_is_the_operators(bind, name, same):
    assert OperatorsAddress(bind).is_at(name) is same
