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
from service.setting_readers import (
    Network,
    address,
    at_least,
    networks,
    one_of,
    path_on_server,
    port_number,
    rate,
    read_flag,
    read_text,
    seconds,
    seconds_or_none,
)

PREFIX = "PINION_"
_SERVICE_LINK = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")


def knob(
    default: Any,
    sentence: str,
    read: Callable[[str], Any] = read_text,
    *,
    variable: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    """One row.

    Args:
        default: the value without a variable.
        sentence: what it does, for the table in the docs.
        read: text to value; raises ValueError with what would have been right.
        variable: other environment variables than `PINION_<NAME>`, first one set wins.
        secret: whether the value is never shown.
    """
    metadata = {"sentence": sentence, "read": read, "variable": variable, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata)


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
        None,
        "Second address for operators (health, metrics, changes of models, which no other takes), `host:port` or "
        "`unix:path`.",
        address,
    )
    api_keys_file: Path | None = knob(
        None, "File of API keys, a line each as `python -m service key` prints it; read again when it changes.", Path
    )
    api_keys: str | None = knob(
        None, "API keys as in that file, lines with `;` between them; both may be set.", secret=True
    )
    allowed_networks: tuple[Network, ...] = knob(
        (), "Networks whose addresses may ask, with commas; without it all. Health is open to every address.", networks
    )
    key_requests_per_s: float | None = knob(
        None, "Requests a second that each API key may ask of all workers together, unless its line says else.", rate
    )
    address_requests_per_s: float | None = knob(
        None, "Requests a second that each client's address (IPv6: /64) may ask of all workers together.", rate
    )
    audit_file: Path | None = knob(
        None, "File to which a JSON line for every request but health is appended: who asked for what.", Path
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
