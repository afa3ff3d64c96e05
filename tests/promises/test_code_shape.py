"""How the code is kept, as far as a machine can tell."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "service").rglob("*.py"))
WEAK = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
LONGEST_FILE, LONGEST_FUNCTION = 310, 30


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def lines_of(function):
    """Lines of its body; functions in it are counted by themselves."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    own = [node for node in body if not isinstance(node, ast.FunctionDef)]
    return sum(node.end_lineno - node.lineno + 1 for node in own)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_fit_a_screen_or_a_few(path):
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert lines_of(node) <= LONGEST_FUNCTION, f"{node.name} has {lines_of(node)} lines"


def test_no_weak_names():
    assert [path for path in SOURCES if path.stem in WEAK] == []


def test_every_room_says_what_it_is_for_and_nothing_else():
    for init in (ROOT / "service").glob("*/__init__.py"):
        tree = ast.parse(init.read_text())
        assert ast.get_docstring(tree), init
        assert len(tree.body) == 1, init


def test_requirements_are_pinned():
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith(("#", "-r")):
                assert re.match(r"[\w\[\]-]+==[\d.]+(; .*)?$", line), line


def test_a_strangers_clone_needs_nothing_else():
    strange = re.compile("/" + "work/|farm" + "-|\\.\\./sha" + "red")
    for path in tracked():
        if path.suffix in (".py", ".md", ".toml", ".txt", "") and path.is_file():
            assert not strange.search(path.read_text(errors="ignore")), path
