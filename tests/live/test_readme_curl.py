"""The README's curl lines, run as they stand."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
EXAMPLES = [
    tuple(part.split("\n", 1)) for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part
]


@pytest.mark.parametrize(("command", "answer"), EXAMPLES)
def test_the_readme_is_true(server, command, answer):
    assert command.startswith("curl -s ")
    local = command.replace("localhost:8000", f"127.0.0.1:{server.port}")
    done = subprocess.run(["bash", "-c", local], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer.strip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
