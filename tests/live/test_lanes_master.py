"""What the master keeps, imports and leaves behind."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.host import affinity
from tests.live.lanes_service import CONF, CORES, DEADLINE_S, children, service, until


def test_a_worker_that_was_told_to_stop_is_draining_until_it_ends(tmp_path):
    with service(tmp_path, "-w", "2", "-k", "gthread") as one, ThreadPoolExecutor(1) as pool:
        assert one.follows_its_plan(2)
        waiting = pool.submit(one.ask, "/wait")
        first, second = children(one.process.pid)
        busy = until(lambda: next((pid for pid in (first, second) if len(affinity.read_masks(pid)) > 1), None))
        time.sleep(0.2)
        os.kill(busy, signal.SIGTERM)
        assert until(lambda: [pid for _, pid, state, _ in one.ask()["board"] if state == "DRAINING"] == [busy])
        (tmp_path / "go").touch()
        waiting.result()
        assert until(lambda: busy not in [pid for _, pid, *_ in one.ask()["board"]])


def test_a_worker_that_is_told_to_stop_while_it_starts_does_not_hang(tmp_path):
    conf = tmp_path / "gunicorn.conf.py"
    early = """
import signal
def post_fork(server, worker):
    hooks.post_fork(server, worker)
    if worker.age == 1:
        signal.raise_signal(signal.SIGTERM)
"""
    conf.write_text(CONF.read_text() + early)
    with service(tmp_path, conf=conf) as one:
        first = int(until(lambda: re.search(r"Booting worker with pid: (\d+)", one.log.read_text()))[1])
        assert until(lambda: first not in children(one.process.pid))
        assert one.follows_its_plan(CORES)


def test_the_metrics_folder_goes_with_the_master(tmp_path):
    with service(tmp_path) as one:
        folder = Path(one.ask()["metrics"]).parent
        assert folder.is_dir()
    assert one.process.returncode == 0
    assert not folder.exists()


def test_a_second_master_inherits_the_metrics_folder_and_the_last_one_removes_it(tmp_path):
    pidfile = tmp_path / "pid"
    with service(tmp_path, "--pid", str(pidfile)) as one:
        assert one.follows_its_plan(CORES)
        folder = Path(one.ask()["metrics"]).parent
        one.signal("USR2")
        assert until(lambda: one.log.read_text().count("Listening at") == 2)
        successor = int(until((tmp_path / "pid.2").read_text))
    try:
        assert until(lambda: one.ask()["metrics_id"].startswith(f"{successor}-"))
        assert Path(one.ask()["metrics"]).parent == folder
        assert folder.is_dir()
    finally:
        os.kill(successor, signal.SIGTERM)
    assert until(lambda: not folder.exists())


def test_the_master_imports_no_room_that_a_reload_renews(tmp_path):
    shown = tmp_path / "modules"
    conf = tmp_path / "gunicorn.conf.py"
    conf.write_text(
        CONF.read_text()
        + "import sys, pathlib\n"
        + f"on_exit = lambda server: pathlib.Path({str(shown)!r}).write_text(' '.join(sys.modules))\n"
    )
    with service(tmp_path, conf=conf) as one:
        assert one.follows_its_plan(CORES)
        os.kill(one.ask()["pid"], signal.SIGKILL)
        assert one.follows_its_plan(CORES)
    names = shown.read_text().split()
    rooms = {".".join(name.split(".")[:2]) for name in names if name.split(".")[0] == "service"}
    settings = {"service.settings", "service.setting_readers"}
    assert rooms == {"service", "service.errors", *settings, "service.host", "service.prefork"}
    assert not {"numpy", "onnxruntime", "flask", "prometheus_client"} & set(names)


def test_a_wrong_setting_ends_the_start_with_one_sentence_each(tmp_path):
    with service(tmp_path, PINION_WORKERS="0", PORT="http") as one:
        assert one.process.wait(DEADLINE_S) == 1
    text = one.log.read_text()
    assert "PINION_WORKERS: expected a whole number from 1 on, got '0'" in text
    assert "PORT: expected a port from 0 to 65535, got 'http'" in text
    assert "Traceback" not in text
