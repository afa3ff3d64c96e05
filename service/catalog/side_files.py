"""Files that a model's configuration names: labels and warm-up requests, never from outside the model's folder."""

from __future__ import annotations

from pathlib import Path


def inside(folder: Path, name: str) -> Path:
    """A file of the model's folder.

    Raises:
        ValueError: it lies outside, also by a link, or isn't there.
    """
    path = folder / name
    if Path(name).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError("a file inside the model's folder")
    if not path.is_file():
        raise ValueError(f"a file that is there ({path} isn't)")
    return path


def label_lines(folder: Path, name: str) -> tuple[str, ...]:
    """The labels of a file, one a line.

    Raises:
        ValueError: it lies outside, isn't there, is empty or isn't UTF-8.
    """
    path = inside(folder, name)
    try:
        labels = tuple(path.read_text(encoding="utf-8-sig").rstrip().splitlines())
    except UnicodeDecodeError:
        raise ValueError("a file of UTF-8 text with one label a line") from None
    except OSError as fault:
        raise ValueError(f"a file that can be read ({fault.strerror})") from None
    if not labels:
        raise ValueError("a file with one label a line (it is empty)")
    return labels
