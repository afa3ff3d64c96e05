"""What the pages for people point at is there."""

import re
import subprocess
from pathlib import Path

import pytest

from service.__main__ import COMMANDS
from service.settings import ROWS, variables

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
PAGES = [name for name in TRACKED.stdout.splitlines() if not name.startswith("tests/")]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_the_repository_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_script_that_is_named_is_there_and_runs(page):
    for name in re.findall(r"\bscript/[\w-]+", (ROOT / page).read_text()):
        assert (ROOT / name).stat().st_mode & 0o111, name


def test_the_readme_names_only_settings_and_commands_that_exist():
    known = {name for row in ROWS for name in variables(row)}
    assert set(re.findall(r"PINION_[A-Z_]+", README)) - known == set()
    assert set(re.findall(r"python -m service (\w+)", README)) - set(COMMANDS) == set()
