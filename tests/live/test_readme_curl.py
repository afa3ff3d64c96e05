"""The README's examples, run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
SCRIPTS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = [
    tuple(part.split("\n", 1)) for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part
]


@pytest.mark.parametrize(("command", "answer"), EXAMPLES)
def test_the_readme_is_true(server, command, answer):
    assert command.startswith("curl -s ")
    local = command.replace("localhost:8000", f"127.0.0.1:{server.port}")
    done = subprocess.run(["bash", "-c", local], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer.strip()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_readmes_python_is_true(server, script):
    local = script.replace("localhost:8000", f"127.0.0.1:{server.port}")
    done = subprocess.run([sys.executable, "-c", local], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", script, re.MULTILINE)


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
    assert len(SCRIPTS) >= 1
