import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_go_down_the_floors_and_foreign_libraries_have_one_home():
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Contracts: 6 kept, 0 broken." in done.stdout


def test_the_master_imports_only_what_a_reload_may_leave_old():
    script = (
        "import runpy, sys; runpy.run_path('gunicorn.conf.py'); "
        "print(*(name for name in sys.modules if name.startswith('service')))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    rooms = {".".join(name.split(".")[:2]) for name in done.stdout.split()}
    told = {"service.errors", "service.settings", "service.setting_readers", "service.host", "service.prefork"}
    assert rooms == {"service", *told}
