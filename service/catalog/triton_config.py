"""Triton's `config.pbtxt`, as far as it means the same here; everything else in it is reported.

Source: Triton's `model_configuration.md` and the README of its ONNX Runtime backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.catalog import triton_engine
from service.catalog.pbtxt import Field, Message, parse
from service.catalog.side_files import label_lines
from service.catalog.triton_schema import Findings, as_json, said, word
from service.catalog.triton_settings import Draft, Setting
from service.catalog.versions import ALL, Versions
from service.errors import ConfigurationError

_FOR_THE_CONFIG_ROUTE = ("version_policy", "input", "output", "instance_group", "dynamic_batching", "parameters")
_OTHER_SCHEDULERS = {
    "sequence_batching": "keeps state between requests, which is not offered; every request stands alone here",
    "ensemble_scheduling": "joins several models, which is not offered; serve the models by themselves",
}


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """What a `config.pbtxt` says.

    Attributes:
        settings: what means the same here.
        notes: sentences on everything else in it.
        document: the parts that `…/config` shows, as Triton's JSON.
    """

    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)


def default_model_filename(path: Path) -> str | None:
    """The name of the model file where `config.pbtxt` gives one.

    Raises:
        ConfigurationError: the file can't be read, or the name isn't that of a file in the same folder.
    """
    for at in _parsed(path).fields:
        if at.name == "default_model_filename" and word(at):
            if Path(word(at)).name != word(at):
                raise ConfigurationError(
                    [f"{path.name}:{at.line}: `{at.name}` must be the name of a file without a folder, got {said(at)}"]
                )
            return word(at)
    return None


def read_triton_config(path: Path, model_name: str) -> TritonConfig:
    """Reads a `config.pbtxt`.

    Args:
        path: the file.
        model_name: that the file must name too, if it names one.

    Raises:
        ConfigurationError: it can't be read, or asks for what would be answered wrongly here.
    """
    message = _parsed(path)
    draft = Draft(Findings(path.name), path.parent.absolute(), model_name)
    for at in message.fields:
        _READERS.get(at.name, _unknown)(at, draft)
    triton_engine.finish(draft)
    if draft.found.problems:
        raise ConfigurationError(draft.found.problems)
    shown = {name: value for name, value in as_json(message).items() if name in _FOR_THE_CONFIG_ROUTE}
    return TritonConfig(tuple(draft.settings()), tuple(draft.found.notes), shown)


def _parsed(path: Path) -> Message:
    try:
        return parse(path.read_text(encoding="utf-8"), path.name)
    except OSError as fault:
        raise ConfigurationError([f"{path.name}: it can't be read: {fault.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([f"{path.name}: expected UTF-8 text"]) from None


def _unknown(at: Field, draft: Draft) -> None:
    draft.found.note(at, "has no meaning here and changes nothing")


def _nothing(_at: Field, _draft: Draft) -> None:
    """What has been read elsewhere: by the layout, or for the `…/config` route."""


def _name(at: Field, draft: Draft) -> None:
    if word(at) not in ("", draft.model_name):
        draft.found.problem(at, f"is {said(at)}, but the model is '{draft.model_name}'; make them equal or take it out")


def _only(*allowed: str) -> Callable[[Field, Draft], None]:
    def read(at: Field, draft: Draft) -> None:
        if word(at) not in allowed:
            draft.found.problem(at, f"is {said(at)}; only {' or '.join(allowed)} is served here")

    return read


def _max_batch_size(at: Field, draft: Draft) -> None:
    limit = draft.found.whole(at, 0)
    if limit == 0:
        draft.set("batching", False, at)
    elif limit is not None:
        draft.set("max_batch_size", limit, at)


def _dynamic_batching(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        if part.name == "max_queue_delay_microseconds":
            draft.set("max_delay_us", draft.found.whole(part, 0), part)
        elif part.name == "preferred_batch_size":
            draft.found.note(part, "is not needed: what waits is run together, up to max_batch_size")
        else:
            draft.found.note(part, "in dynamic_batching is not offered and changes nothing")


def _scheduler(at: Field, draft: Draft) -> None:
    draft.found.problem(at, _OTHER_SCHEDULERS[at.name])


def _version_policy(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        inner = draft.found.inner(part)
        if part.name == "all":
            draft.set("versions", ALL, at)
        elif part.name == "latest":
            counts = [draft.found.whole(count, 1) for count in inner if count.name == "num_versions"]
            draft.set("versions", Versions(latest=counts[0] if counts else 1), at)
        elif part.name == "specific":
            listed = [draft.found.whole(version, 1) for version in inner if version.name == "versions"]
            draft.set("versions", Versions(listed=tuple(map(str, listed))), at)
        else:
            draft.found.problem(part, "is no version policy; use latest, all or specific")


def _transaction_policy(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        if part.name == "decoupled" and word(part) == "true":
            draft.found.problem(part, "answers in several parts, which is not offered")


def _tensor(at: Field, draft: Draft) -> None:
    for part in draft.found.inner(at):
        if part.name in ("reshape", "is_shape_tensor", "allow_ragged_batch", "is_non_linear_format_io"):
            draft.found.note(part, "is not offered: requests carry the shapes that the model file declares")
        elif part.name == "label_filename":
            _labels(part, word(_named("name", at)), draft)


def _labels(part: Field, output: str, draft: Draft) -> None:
    try:
        draft.labels[output] = label_lines(draft.folder, draft.found.text(part) or "")
    except ValueError as expected:
        draft.found.problem(part, f"must be {expected}, got {said(part)}")


def _named(name: str, at: Field) -> Field:
    parts = at.value.fields if isinstance(at.value, Message) else ()
    return next((part for part in parts if part.name == name), Field(name, Message((), at.line), at.line))


def _warm_up(at: Field, draft: Draft) -> None:
    draft.found.note(at, "is not read; list request bodies in model.toml's `warm_up`. Zeros are run without it")


_READERS: dict[str, Callable[[Field, Draft], None]] = {
    "name": _name,
    "platform": _only("onnxruntime_onnx"),
    "backend": _only("onnxruntime"),
    "max_batch_size": _max_batch_size,
    "dynamic_batching": _dynamic_batching,
    "sequence_batching": _scheduler,
    "ensemble_scheduling": _scheduler,
    "version_policy": _version_policy,
    "model_transaction_policy": _transaction_policy,
    "input": _tensor,
    "output": _tensor,
    "model_warmup": _warm_up,
    "default_model_filename": _nothing,
    "instance_group": triton_engine.instance_group,
    "parameters": triton_engine.parameter,
    "optimization": triton_engine.optimization,
}
