import subprocess
import sys

import pytest

from tests.live.server import ROOT, Server

RUNNER = ROOT / "tests" / "cases" / "_tools" / "run_cases.py"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The shipped models on two workers."""
    with Server(tmp_path_factory.mktemp("server"), workers=2) as running:
        yield running


@pytest.fixture(scope="session")
def case_models(tmp_path_factory):
    """Gives a repository of all case models in one layout."""
    made = {}

    def stage(layout):
        if layout not in made:
            made[layout] = tmp_path_factory.mktemp(f"cases-{layout}")
            command = [sys.executable, RUNNER, "--stage", made[layout], "--layout", layout]
            subprocess.run(command, check=True, capture_output=True)
        return made[layout]

    return stage


@pytest.fixture(scope="session")
def case_server(tmp_path_factory, case_models):
    """The models of all cases; two of them are there to fail."""
    folder = tmp_path_factory.mktemp("case-server")
    with Server(folder, models=case_models("triton"), workers=2, pinion_ready="any") as running:
        yield running
