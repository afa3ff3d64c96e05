from pathlib import Path

import pytest

from service.errors import ConfigurationError
from service.settings import Settings, resolve


def test_defaults_and_their_origin():
    resolved = resolve({})
    assert resolved.settings == Settings()
    assert set(resolved.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("PINION_MODELS", "/m", "models", Path("/m")),
        ("PORT", "9000", "port", 9000),
        ("AIP_HTTP_PORT", "9001", "port", 9001),
        ("PINION_PORT", "0", "port", 0),
        ("WEB_CONCURRENCY", "3", "workers", 3),
        ("PINION_REQUEST_LOG", "Yes", "request_log", True),
        ("PINION_REQUEST_LOG", "off", "request_log", False),
        ("LOG_LEVEL", "WARNING", "log_level", "warning"),
        ("PINION_DRAIN_S", "0", "drain_s", 0.0),
        ("PINION_DRAIN_S", "2.5", "drain_s", 2.5),
        ("PINION_HEAD_TIMEOUT_S", "1", "head_timeout_s", 1.0),
        ("AIP_PREDICT_ROUTE", "/p", "predict_route", "/p"),
        ("PINION_OPERATOR_BIND", "[::1]:9100", "operator_bind", "[::1]:9100"),
        ("PINION_OPERATOR_BIND", "unix:/run/pinion", "operator_bind", "unix:/run/pinion"),
        ("PINION_ON_MISSING_PROVIDER", "next", "on_missing_provider", "next"),
    ],
)
def test_a_variable_becomes_a_value_and_its_origin(variable, text, name, value):
    resolved = resolve({variable: text})
    assert getattr(resolved.settings, name) == value
    assert resolved.origins[name] == variable


def test_our_own_name_wins_and_empty_means_unset():
    assert resolve({"PORT": "1", "PINION_PORT": "2", "AIP_HTTP_PORT": "3"}).settings.port == 2
    assert resolve({"PORT": "1", "AIP_HTTP_PORT": "3"}).settings.port == 3
    assert resolve({"PORT": "", "PINION_MODELS": ""}).settings == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("PORT", "x", "a port from 0 to 65535"),
        ("PORT", "65536", "a port from 0 to 65535"),
        ("WEB_CONCURRENCY", "0", "a whole number from 1 on"),
        ("WEB_CONCURRENCY", "two", "a whole number from 1 on"),
        ("PINION_REQUEST_LOG", "maybe", "true or false"),
        ("PINION_HEAD_TIMEOUT_S", "-1", "a number of seconds above 0"),
        ("PINION_HEAD_TIMEOUT_S", "inf", "a number of seconds above 0"),
        ("PINION_HEAD_TIMEOUT_S", "soon", "a number of seconds above 0"),
        ("LOG_LEVEL", "loud", "one of debug, info, warning, error, critical"),
        ("AIP_HEALTH_ROUTE", "health", "a path that starts with /"),
        ("PINION_OPERATOR_BIND", "localhost", "an address, `host:port` or `unix:path`"),
        ("PINION_OPERATOR_BIND", ":9100", "an address, `host:port` or `unix:path`"),
        ("PINION_OPERATOR_BIND", "127.0.0.1:99999", "an address, `host:port` or `unix:path`"),
        ("PINION_OPERATOR_BIND", "unix:", "an address, `host:port` or `unix:path`"),
    ],
)
def test_a_wrong_value_says_what_was_expected_and_what_came(variable, text, expected):
    with pytest.raises(ConfigurationError) as caught:
        resolve({variable: text})
    assert caught.value.problems == [f"{variable}: expected {expected}, got {text!r}"]


def test_all_problems_come_at_once():
    with pytest.raises(ConfigurationError) as caught:
        resolve({"PORT": "x", "PINION_RAEDY": "any", "PINION_QQQQ": "1", "OTHER": "1"})
    assert len(caught.value.problems) == 3
    assert "did you mean PINION_READY?" in str(caught.value)
    assert "python -m service check" in str(caught.value)


def test_variables_of_a_kubernetes_service_of_this_name_are_not_settings():
    links = {
        "PINION_SERVICE_HOST": "10.0.0.1", "PINION_SERVICE_PORT": "80", "PINION_SERVICE_PORT_HTTP": "80",
        "PINION_PORT": "tcp://10.0.0.1:80", "PINION_PORT_80_TCP": "tcp://10.0.0.1:80", "PINION_PORT_80_TCP_PORT": "80",
    }  # fmt: skip
    found = resolve({**links, "PORT": "8001"})
    assert (found.settings.port, found.origins["port"]) == (8001, "PORT")
    with pytest.raises(ConfigurationError, match="PINION_SERVICE: unknown"):
        resolve({"PINION_SERVICE": "x"})
