import runpy
from pathlib import Path

import pytest

MAKE = Path(__file__).parents[2] / "data" / "machines" / "make.py"


@pytest.fixture(scope="session")
def machines(tmp_path_factory):
    """Folder of the recorded machines."""
    folder = tmp_path_factory.mktemp("machines")
    runpy.run_path(str(MAKE))["write"](folder)
    return folder
