"""Other projects' clients, unchanged."""

import subprocess
import sys

import pytest

from tests.live.server import ROOT

CLIENTS = ROOT / "tests" / "cases" / "_clients"


def run(python, script, address):
    done = subprocess.run([python, CLIENTS / script, address], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tritonclient(case_server):
    assert "tritonclient: all passed" in run(sys.executable, "smoke_tritonclient.py", f"127.0.0.1:{case_server.port}")


@pytest.mark.parametrize(
    ("client", "script", "passed"),
    [
        ("kserve", "smoke_kserve.py", "kserve: all passed"),
        ("mlserver", "smoke_mlserver_types.py", "mlserver types: all passed"),
    ],
)
def test_clients_with_an_environment_of_their_own(case_server, client, script, passed):
    python = ROOT / f".venv-{client}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} is missing: script/clients makes it")
    assert passed in run(python, script, case_server.url)
