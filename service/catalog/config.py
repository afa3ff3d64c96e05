"""What the owner of a model may choose: rows, `model.toml`, and what Triton's `config.pbtxt` says of the same.

`docs/model-toml.md` and the errors are written from these rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.catalog import readers, versions
from service.catalog.image_table import images
from service.catalog.layout import Found
from service.catalog.model_toml import read_model_toml
from service.catalog.padding_table import PaddingTable, padding
from service.catalog.rows import Row
from service.catalog.triton_config import TritonConfig, read_triton_config
from service.catalog.versions import ALL, Versions
from service.engine.options import CPU, EngineOptions, Provider
from service.errors import ConfigurationError
from service.wire import json_numbers
from service.wire.images import ImageInput

_KEYS = {"images": "image"}
"""Keys that aren't spelled like their field: the table of one input is `[image.<input>]`."""


def _key(default: Any, sentence: str, read: Callable[[Any], Any], *, unit: str = "", words: str = "") -> Any:
    """One row.

    Args:
        default: the value without the key.
        sentence: what it does.
        read: TOML's value to ours, see `rows.Row`.
        unit: of the value.
        words: the default in words, where TOML has no spelling for it.
    """
    metadata = {"sentence": sentence, "read": read, "unit": unit, "words": words}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The configuration of one model; the sentences of the rows say what each field does."""

    providers: tuple[Provider, ...] = _key(
        (CPU,),
        'Execution providers in the order wanted, each a name or a table `{name = "cuda", options = {...}}`.',
        readers.providers,
        words='`["cpu"]`',
    )
    on_missing_provider: str | None = _key(
        None,
        "What to do when a provider isn't there: `fail`, or take the `next` in the list.",
        readers.one_of("fail", "next"),
        words="`PINION_ON_MISSING_PROVIDER`",
    )
    threads: int | None = _key(
        None,
        "Threads that one run may use; more than the lane has cores only makes it wait for itself.",
        readers.whole(1, 1024),
        unit="threads",
        words="cores of the lane",
    )
    graph_optimization: str = _key(
        "all",
        "Graph optimizations of ONNX Runtime: `all`, `extended`, `basic` or `off`.",
        readers.one_of("all", "extended", "basic", "off"),
    )
    free_dimensions: tuple[tuple[str, int], ...] = _key(
        (), "Fixed lengths for named free dimensions, such as `{sequence = 128}`.", readers.lengths, words="`{}`"
    )
    spin: bool = _key(
        False, "Threads wait actively for work: faster by a little, for much more CPU time.", readers.flag
    )
    spin_duration_us: int | None = _key(
        None,
        "How long they do so before they sleep.",
        readers.whole(1),
        unit="microseconds",
        words="ONNX Runtime's own",
    )
    memory_pattern: bool | None = _key(
        None, "Plan the memory of a run in advance.", readers.flag, words="on where all shapes are fixed"
    )
    memory_arena: bool = _key(True, "Keep freed memory for the next run.", readers.flag)
    entries: tuple[tuple[str, str], ...] = _key(
        (),
        'Further session configuration entries of ONNX Runtime, such as `{"session.set_denormal_as_zero" = true}`.',
        readers.entries,
        words="`{}`",
    )
    batching: bool | None = _key(
        None, "Run waiting requests together.", readers.flag, words="where a test at load shows that it pays"
    )
    exact: bool = _key(
        False, "Never run requests of different callers together, whatever `batching` says.", readers.flag
    )
    max_batch_size: int | None = _key(
        None, "Most rows in one run.", readers.whole(1), unit="rows", words="measured at load"
    )
    max_delay_us: int = _key(
        0,
        "How long a request may wait for others to join its run, where they are merged; the worker polls meanwhile.",
        readers.whole(0, 1_000_000),
        unit="microseconds",
    )
    timeout_s: float = _key(
        10.0,
        "How long a request may wait for its run to begin before it is answered 504; below gunicorn's `timeout`.",
        readers.above_zero,
        unit="seconds",
    )
    warm_up: tuple[Path, ...] = _key(
        (),
        "Files beside this one with v2 request bodies (JSON) that are run before the model is ready.",
        readers.texts,
        words="zeros in the shapes of the inputs",
    )
    warm_up_runs: int = _key(1, "How often each of them is run; 0 for no warm-up.", readers.whole(0, 1000), unit="runs")
    versions: Versions = _key(
        ALL,
        "Versions to serve: `all`, `latest`, `{latest = 2}` or a list. A request that names none gets the newest.",
        versions.read,
        words='`"all"`',
    )
    labels: tuple[tuple[str, tuple[str, ...]], ...] = _key(
        (),
        'Class names of an output, such as `{scores = ["cat", "dog"]}`, or the name of a file with one a line.',
        readers.labels,
        words="`{}`",
    )
    images: tuple[tuple[str, ImageInput], ...] = _key(
        (), "Inputs that take JPEG or PNG, a table for each, see below.", images, words="`{}`"
    )
    padding: PaddingTable | None = _key(
        None, "Run waiting requests of different lengths together, see below.", padding, words="they run by themselves"
    )

    def served_versions(self, there: Sequence[str]) -> list[str]:
        """Those of the versions that are there, oldest first, which are to be served."""
        return self.versions.served(there)

    def engine_options(self, on_missing_provider: str) -> EngineOptions:
        """What of it concerns the session; `on_missing_provider` is the service's setting."""
        return EngineOptions(
            providers=self.providers,
            on_missing_provider=self.on_missing_provider or on_missing_provider,
            threads=self.threads,
            graph_optimization=self.graph_optimization,
            free_dimensions=self.free_dimensions,
            spin=self.spin,
            spin_duration_us=self.spin_duration_us,
            memory_pattern=self.memory_pattern,
            memory_arena=self.memory_arena,
            entries=self.entries,
        )

    def unknown_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """A sentence for each input or output that is configured and that the model doesn't have."""
        return [
            f"`{key}` names the {kind} '{name}'; the model has {', '.join(there) or 'none'}"
            for key, kind, names, there in (
                ("image", "input", self.images, inputs),
                ("labels", "output", self.labels, outputs),
            )
            for name, _ in names
            if name not in there
        ]


def _row(field: dataclasses.Field[Any]) -> Row:
    known: Mapping[str, Any] = field.metadata
    default = known["words"] or f"`{_spelled(field.default)}`"
    return Row(_KEYS.get(field.name, field.name), known["unit"], default, known["sentence"], known["read"])


def _spelled(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else str(default)


ROWS: tuple[Row, ...] = tuple(_row(field) for field in dataclasses.fields(ModelConfig))
_FIELD_BY_KEY: dict[str, str] = {
    row.key: field.name for row, field in zip(ROWS, dataclasses.fields(ModelConfig), strict=True)
}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A model's configuration, and what its owner should hear about it.

    Attributes:
        config: of the model.
        engine: what of it concerns the session.
        notes: sentences on what is advice only, isn't understood, or was overruled.
        triton: what `config.pbtxt` says of batching, versions, instances, inputs and outputs, as Triton's JSON.
        origins: file and line of what is set, by field.
        fast_json_bytes: the service's setting, for the readers of requests.
    """

    config: ModelConfig
    engine: EngineOptions
    notes: tuple[str, ...] = ()
    triton: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fast_json_bytes: int = json_numbers.FROM_BYTES

    def told_at(self, field: str, sentence: str) -> str:
        """The sentence behind the place where the field was set; alone where nobody set it."""
        return f"{self.origins[field]}: {sentence}" if field in self.origins else sentence

    def too_long(self, kill_after_s: float) -> str | None:
        """A sentence if a request may take longer than the server lets a worker be busy.

        Args:
            kill_after_s: gunicorn's `timeout`; 0 where it kills no worker.
        """
        if kill_after_s == 0 or self.config.timeout_s < kill_after_s:
            return None
        kind = "" if "timeout_s" in self.origins else " (its default)"
        sentence = (
            f"`timeout_s` is {self.config.timeout_s:g}{kind}, expected less than gunicorn's `timeout` of "
            f"{kill_after_s:g}: a worker could be killed before the request's time is up"
        )
        return self.told_at("timeout_s", sentence)


def load_config(
    found: Found, on_missing_provider: str = "fail", fast_json_bytes: int = json_numbers.FROM_BYTES
) -> LoadedConfig:
    """Reads what stands beside a model.

    Args:
        found: where it stands.
        on_missing_provider: the service's setting, for a model that doesn't say.
        fast_json_bytes: the service's setting.

    Raises:
        ConfigurationError: everything that is wrong, each with its file and line.
    """
    problems: list[str] = []
    own: dict[str, Any] = {}
    origins: dict[str, str] = {}
    triton = TritonConfig()
    try:
        if found.config_path is not None:
            given, places = read_model_toml(found.config_path, ROWS)
            own = {_FIELD_BY_KEY[key]: value for key, value in given.items()}
            origins = {_FIELD_BY_KEY[key]: place for key, place in places.items()}
    except ConfigurationError as fault:
        problems.extend(fault.problems)
    try:
        if found.triton_config_path is not None:
            triton = read_triton_config(found.triton_config_path, found.name)
    except ConfigurationError as fault:
        problems.extend(fault.problems)
    if problems:
        raise ConfigurationError(problems)
    notes = list(triton.notes)
    config = ModelConfig(**{**_taken(triton, own, notes), **own})
    origins = {setting.field: setting.where for setting in triton.settings} | origins
    notes.extend(_absent_versions(config, found, origins.get("versions", found.name)))
    return LoadedConfig(
        config, config.engine_options(on_missing_provider), tuple(notes), triton.document, origins, fast_json_bytes
    )


def _taken(triton: TritonConfig, own: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """What `config.pbtxt` sets and `model.toml` doesn't."""
    taken = {}
    for setting in triton.settings:
        if setting.field in own or setting.source in own:
            notes.append(f"{setting.where}: `{setting.source}` is overruled by model.toml")
        else:
            taken[setting.field] = setting.value
    return taken


def _absent_versions(config: ModelConfig, found: Found, where: str) -> list[str]:
    absent = config.versions.absent(list(found.versions))
    there = ", ".join(found.versions)
    if not config.served_versions(list(found.versions)):
        raise ConfigurationError([f"{where}: `versions` lists {', '.join(absent)}; the model has {there}"])
    return [f"{where}: `versions` lists {version}, which isn't there; the model has {there}" for version in absent]
