"""Which models a folder holds, from names and places of files alone.

    models/iris.onnx                        the repository holds the file, iris.toml beside it
    models/iris/model.onnx                  a folder a model
    models/iris/3/model.onnx                a folder a version (Triton, TensorFlow Serving)
    models/iris/3/model.onnx/model.onnx     the same with external data in a folder of its own
    model.onnx                              the repository is itself the model (KServe's /mnt/models)

Instead of `model.onnx` the only `.onnx` file of its folder will do, and the `default_model_filename` of Triton's
`config.pbtxt`. A version is a whole number that doesn't start with 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from service.catalog.triton_config import default_model_filename
from service.errors import ConfigurationError

_MODEL, _CONFIG, _TRITON_CONFIG = "model.onnx", "model.toml", "config.pbtxt"
_UNVERSIONED = "1"
_VERSION = re.compile(r"[1-9][0-9]*")
_NO_MODELS = frozenset({"__pycache__", "lost+found"})


@dataclass(frozen=True, slots=True)
class Found:
    """One model as it lies on disk.

    Attributes:
        name: of the model.
        versions: model file by version, oldest first; such a file may still be missing.
        versioned: False for a model without version folders, whose one version is "1".
        config_path: its `model.toml`, where there is one.
        triton_config_path: its `config.pbtxt`, where there is one.
        folder: that files of the configuration are relative to.
    """

    name: str
    versions: dict[str, Path]
    versioned: bool
    config_path: Path | None
    triton_config_path: Path | None
    folder: Path


@dataclass(frozen=True, slots=True)
class Scan:
    """What a repository holds.

    Attributes:
        models: by name.
        problems: by name, why something that looks like a model is none.
    """

    models: dict[str, Found] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class _NoModelError(Exception):
    """A folder isn't a model; the message says why."""


def scan(folder: Path, model_name: str | None) -> Scan:
    """Looks through a repository; nothing is opened but `config.pbtxt`.

    Args:
        folder: the repository.
        model_name: name of the model where the folder is itself one; else the folder's name.

    Raises:
        ConfigurationError: there is no such folder, or it can't be read.
    """
    try:
        entries = _visible(folder)
    except OSError as fault:
        raise ConfigurationError(
            [f"the model repository {folder} can't be read ({fault.strerror}); set PINION_MODELS to a folder of models"]
        ) from None
    found = Scan()
    sources: dict[str, str] = {}
    if _is_itself_a_model(folder, entries, model_name):
        own = model_name or folder.resolve().name
        sources[own] = f"{folder}/"
        _add(found, own, folder)
        entries = [entry for entry in entries if _is_another(entry, found.models.get(own))]
    elif (folder / _CONFIG).exists():
        found.problems[_CONFIG] = f"{_CONFIG} in the repository is no model's; for iris.onnx call it iris.toml"
    for name, entry in _named(entries):
        if name in sources:
            found.models.pop(name, None)
            found.problems[name] = f"both {sources[name]} and {_source(entry)} are a model '{name}'; keep one of them"
            continue
        sources[name] = _source(entry)
        _add(found, name, entry)
    return found


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _is_itself_a_model(folder: Path, entries: list[Path], model_name: str | None) -> bool:
    """It holds `model.onnx`; or a name is given for it and it reads like one model and nothing else."""
    if (folder / _MODEL).exists():
        return True
    folders = [entry for entry in entries if entry.is_dir()]
    if model_name is None or not all(_VERSION.fullmatch(entry.name) for entry in folders):
        return False
    return bool(folders) or len(_onnx_files(folder)) == 1


def _is_another(entry: Path, own: Found | None) -> bool:
    """Whether an entry of a folder that is itself a model is one more; its versions and data aren't."""
    if not entry.is_dir():
        return entry not in (own.versions.values() if own else ()) and entry.name != _MODEL
    return entry.name != _MODEL and not _VERSION.fullmatch(entry.name) and not _is_data(entry)


def _named(entries: list[Path]) -> Iterator[tuple[str, Path]]:
    """The entries of a repository that should be models, with their names."""
    files = [entry for entry in entries if entry.name.endswith(".onnx") and not entry.is_dir()]
    for entry in entries:
        if entry in files:
            yield entry.name.removesuffix(".onnx"), entry
        elif entry.is_dir() and entry.name not in _NO_MODELS and not (files and _is_data(entry)):
            yield entry.name, entry


def _is_data(folder: Path) -> bool:
    """Whether a folder has files and none of a model: beside `x.onnx` it may hold the weights of that."""
    try:
        inside = _visible(folder)
    except OSError:
        return False
    return bool(inside) and not any(
        entry.suffix == ".onnx" or entry.name in (_CONFIG, _TRITON_CONFIG) or _VERSION.fullmatch(entry.name)
        for entry in inside
    )


def _source(entry: Path) -> str:
    return f"{entry.name}/" if entry.is_dir() else entry.name


def _add(found: Scan, name: str, entry: Path) -> None:
    shown = name.encode("utf-8", "backslashreplace").decode()
    if shown != name:
        found.problems[shown] = "its name isn't UTF-8; rename it"
        return
    try:
        found.models[name] = _read_folder(name, entry) if entry.is_dir() else _read_file(name, entry)
    except _NoModelError as fault:
        found.problems[name] = str(fault)
    except ConfigurationError as fault:
        found.problems[name] = "; ".join(fault.problems)
    except OSError as fault:
        found.problems[name] = f"{entry} can't be read: {fault.strerror}"


def _read_file(name: str, path: Path) -> Found:
    if not path.exists():
        raise _NoModelError(f"{path.name} is a link to nothing")
    return Found(name, {_UNVERSIONED: path}, False, _there(path.with_name(f"{name}.toml")), None, path.parent)


def _read_folder(name: str, folder: Path) -> Found:
    triton = _there(folder / _TRITON_CONFIG)
    wanted = (triton and default_model_filename(triton)) or _MODEL
    version_folders = {
        entry.name: entry for entry in _visible(folder) if entry.is_dir() and _VERSION.fullmatch(entry.name)
    }
    versions = dict(_versions(version_folders, wanted))
    single = _model_file(folder, wanted)
    if single and versions:
        raise _NoModelError(
            f"{folder.name}/ holds both {single.relative_to(folder)} and the versions {', '.join(versions)}; "
            "put the file into a version's folder, or take one of them away"
        )
    files = {_UNVERSIONED: single} if single else versions
    if not files:
        raise _NoModelError(_nothing(folder, wanted, list(version_folders)))
    for version in versions:
        _refuse_config_in(folder / version)
    config = _there(folder / _CONFIG)
    return Found(name, files, bool(versions), config, triton, folder)


def _versions(folders: dict[str, Path], wanted: str) -> Iterator[tuple[str, Path]]:
    """Model files by version; a folder without one is a version that can't load, unless all are like that."""
    files = {version: _model_file(folder, wanted) for version, folder in folders.items()}
    if any(files.values()):
        for version in sorted(files, key=int):
            yield version, files[version] or folders[version] / wanted


def _model_file(folder: Path, wanted: str) -> Path | None:
    """The model of a folder: the file wanted, or that in a folder of this name, or the only `.onnx` there."""
    path = folder / wanted
    if path.is_dir():
        inner = _onnx_files(path)
        return path / wanted if path / wanted in inner else _only(inner)
    if path.exists():
        return path
    return _only(_onnx_files(folder))


def _onnx_files(folder: Path) -> list[Path]:
    return [entry for entry in _visible(folder) if entry.suffix == ".onnx" and entry.is_file()]


def _only(files: list[Path]) -> Path | None:
    return files[0] if len(files) == 1 else None


def _nothing(folder: Path, wanted: str, versions: list[str]) -> str:
    """Why a folder is no model."""
    several = [folder, *(folder / version for version in versions)]
    for place in several:
        names = [path.name for path in _onnx_files(place)]
        if len(names) > 1:
            return f"{place.name}/ holds {', '.join(names)}; call the one to serve {wanted}"
    if versions:
        return f"the version folders {', '.join(versions)} of {folder.name}/ hold no {wanted}"
    return (
        f"{folder.name}/ holds no {wanted} and no version folder with one "
        "(its name is a whole number from 1 on, without leading zeros)"
    )


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _refuse_config_in(folder: Path) -> None:
    if (folder / _CONFIG).exists():
        raise _NoModelError(f"{folder.name}/{_CONFIG} holds for all versions: put it into {folder.parent.name}/")
