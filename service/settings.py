"""Every knob of the service as a row: name, default, unit in the name, one sentence, environment variable.

The one place where the environment is read. `docs/settings.md` and the errors are written from these rows.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import ConfigurationError

PREFIX = "PINION_"
_HIGHEST_PORT = 65535
_SERVICE_LINK = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")


def read_text(text: str) -> str:
    """Any text but the empty one."""
    if not text:
        raise ValueError("a text that isn't empty")
    return text


def read_flag(text: str) -> bool:
    """`1`, `true`, `yes`, `on` or their opposites."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false")


def at_least(low: int) -> Callable[[str], int]:
    """Reader of whole numbers from `low` on."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise ValueError(f"a whole number from {low} on")
        return number

    return read


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("a number of seconds above 0")
    return number


def seconds_or_none(text: str) -> float:
    """A number of seconds from 0 on."""
    try:
        return 0.0 if float(text) == 0 else seconds(text)
    except ValueError:
        raise ValueError("a number of seconds from 0 on") from None


def one_of(*words: str) -> Callable[[str], str]:
    """Reader of one word of a list."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text.lower()

    return read


def port_number(text: str) -> int:
    """A TCP port."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= _HIGHEST_PORT:
        raise ValueError("a port from 0 to 65535")
    return number


def address(text: str) -> str:
    """Where to listen."""
    host, _, port = text.rpartition(":")
    is_port = port.isdecimal() and int(port) <= _HIGHEST_PORT
    if text == "unix:" or not (text.startswith("unix:") or (host and is_port)):
        raise ValueError("an address, `host:port` or `unix:path`")
    return text


def path_on_server(text: str) -> str:
    """The path of a route."""
    if not text.startswith("/"):
        raise ValueError("a path that starts with /")
    return text


def knob(default: Any, sentence: str, read: Callable[[str], Any] = read_text, *, variable: tuple[str, ...] = ()) -> Any:
    """One row.

    Args:
        default: the value without a variable.
        sentence: what it does, for the table in the docs.
        read: text to value; raises ValueError with what would have been right.
        variable: other environment variables than `PINION_<NAME>`, first one set wins.
    """
    return dataclasses.field(default=default, metadata={"sentence": sentence, "read": read, "variable": variable})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The resolved configuration of one service."""

    models: Path = knob(Path("models"), "Folder of the model repository.", Path)
    model_name: str | None = knob(
        None,
        "Name of the model when the repository folder itself holds `model.onnx`; else the folder's name.",
    )
    default_model: str | None = knob(
        None, "Model that answers requests which name none (`/invocations`, Vertex AI); else the only one."
    )
    ready: str = knob(
        "all",
        "What server readiness asks for: `all` models loaded, `any` of them, or a list of names with commas.",
    )
    port: int | None = knob(
        None,
        "Port to serve on; once it is set the service binds 0.0.0.0, without it 127.0.0.1:8000.",
        port_number,
        variable=("AIP_HTTP_PORT", "PORT"),
    )
    workers: int | None = knob(
        None,
        "Number of worker processes; without it one for each lane of the core plan.",
        at_least(1),
        variable=("WEB_CONCURRENCY",),
    )
    operator_bind: str | None = knob(
        None, "Second address for operators (health, metrics, status), `host:port` or `unix:path`.", address
    )
    run_dir: Path | None = knob(
        None, "Folder for metrics files; without it one for each master in the temporary folder.", Path
    )
    max_body_bytes: int = knob(
        100 * 1024 * 1024, "Largest body in bytes, on the wire and again after decompression.", at_least(1)
    )
    fast_json_bytes: int = knob(
        4096,
        "Bytes of a JSON body from which its long lists of numbers are read straight into arrays (pysimdjson).",
        at_least(0),
    )
    on_missing_provider: str = knob(
        "fail",
        "What a model does whose execution provider isn't there: `fail`, or take the `next` in its list.",
        one_of("fail", "next"),
    )
    request_log: bool = knob(False, "Write one JSON line for every request, not only for failures.", read_flag)
    max_unsent_bytes: int = knob(
        256 * 1024 * 1024,
        "Largest sum of answers in bytes that slow clients of one worker have not taken; beyond it the slowest are "
        "closed.",
        at_least(1),
    )
    head_timeout_s: float = knob(10.0, "Seconds for the whole head of a request, from its first byte.", seconds)
    body_timeout_s: float = knob(
        30.0, "Seconds for the body of a request, and one more for every 16 KiB of it that arrive.", seconds
    )
    write_timeout_s: float = knob(30.0, "Seconds without a client taking a byte of its answer.", seconds)
    drain_s: float = knob(
        0.0,
        "Seconds after SIGTERM in which a worker goes on accepting, while readiness says 503.",
        seconds_or_none,
    )
    busy_poll_us: int = knob(
        1000,
        "Longest polling in microseconds after work before a worker sleeps; only while requests follow each other "
        "as closely, and 0 for never.",
        at_least(0),
    )
    log_level: str = knob(
        "info",
        "Lowest level that is logged.",
        one_of("debug", "info", "warning", "error", "critical"),
        variable=("LOG_LEVEL",),
    )
    health_route: str | None = knob(
        None, "Further route of server readiness (Vertex AI).", path_on_server, variable=("AIP_HEALTH_ROUTE",)
    )
    predict_route: str | None = knob(
        None,
        "Further route of v1 predictions by the default model (Vertex AI).",
        path_on_server,
        variable=("AIP_PREDICT_ROUTE",),
    )


ROWS: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(Settings)


def variables(row: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Environment variables of a row, the strongest first."""
    return (PREFIX + row.name.upper(), *row.metadata["variable"])


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and where each value came from: `default` or the variable's name."""

    settings: Settings
    origins: dict[str, str]


def resolve(environ: Mapping[str, str]) -> Resolved:
    """Reads all settings from an environment.

    Raises:
        ConfigurationError: with every variable that can't be read and every unknown `PINION_` name.
    """
    environ = {name: value for name, value in environ.items() if not _is_service_link(name, value)}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    for row in ROWS:
        variable = next((name for name in variables(row) if environ.get(name, "") != ""), None)
        origins[row.name] = variable or "default"
        if variable is None:
            continue
        try:
            values[row.name] = row.metadata["read"](environ[variable])
        except ValueError as fault:
            problems.append(f"{variable}: expected {fault}, got {environ[variable]!r}")
    problems.extend(_unknown(environ))
    if problems:
        raise ConfigurationError(problems)
    return Resolved(Settings(**values), origins)


def _is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes set the variable, for a Service that happens to be called pinion."""
    return _SERVICE_LINK.fullmatch(name) is not None or (name == f"{PREFIX}PORT" and "://" in value)


def _unknown(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each `PINION_` variable that no row knows."""
    known = [row.name.upper() for row in ROWS]
    problems = []
    for name in environ:
        own = name.removeprefix(PREFIX)
        if own != name and own not in known:
            near = difflib.get_close_matches(own, known, n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else "; `python -m service check` lists all settings"
            problems.append(f"{name}: unknown setting{hint}")
    return problems
