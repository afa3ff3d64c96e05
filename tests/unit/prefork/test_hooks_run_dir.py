import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.multiprocess import mark_process_dead

from service.errors import ConfigurationError
from service.prefork import run_dir

FILES = [
    f"{kind}_{owner}.db"
    for owner in ("1-0", "1-1", "11-0", "1-01")
    for kind in ("counter", "histogram", "gauge_all", "gauge_livesum", "gauge_liveall", "gauge_livemostrecent")
]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Folders are made below tmp_path, and this process removes none at its end."""
    monkeypatch.setattr(run_dir, "in_memory", lambda: str(tmp_path))
    monkeypatch.setattr(run_dir._Owner, "is_registered", True)
    monkeypatch.setattr(run_dir._Owner, "server", None)
    for name in ("_PINION_RUN_DIR_MADE", "PROMETHEUS_MULTIPROC_DIR", "GUNICORN_PID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def server(**values):
    return SimpleNamespace(
        **{"master_pid": 0, "reexec_pid": 0, "cfg": SimpleNamespace(uid=0, gid=0, env_orig={})} | values
    )


def test_the_metrics_folder_is_made_and_known():
    folder = run_dir.claim(None)
    assert Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]) == folder / "metrics"
    assert (folder / "metrics").is_dir()


def test_a_reload_keeps_the_folder():
    assert run_dir.claim(None) == run_dir.claim(None)


def test_a_folder_that_came_with_a_shell_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("_PINION_RUN_DIR_MADE", f"1:{tmp_path}")
    assert run_dir.claim(None) != tmp_path


def test_a_successor_takes_the_folder_of_its_master(tmp_path, monkeypatch):
    monkeypatch.setenv("_PINION_RUN_DIR_MADE", f"4711:{tmp_path}")
    monkeypatch.setenv("GUNICORN_PID", "4711")
    assert run_dir.claim(None) == tmp_path


def test_the_new_masters_environment_names_the_folder():
    run_dir.claim(None)
    old = server()
    run_dir.pass_on(old)
    assert old.cfg.env_orig == {"_PINION_RUN_DIR_MADE": os.environ["_PINION_RUN_DIR_MADE"]}


def test_a_folder_of_the_settings_is_used_and_never_removed(tmp_path):
    assert run_dir.claim(tmp_path / "mine") == tmp_path / "mine"
    run_dir._remove()
    assert (tmp_path / "mine" / "metrics").is_dir()


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_setting(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"PINION_RUN_DIR: expected a folder .* got .*/file"):
        run_dir.claim(tmp_path / "file")


@pytest.mark.parametrize(("master_pid", "left"), [(0, []), (4711, ["counter_1-0.db"])])
def test_old_metrics_are_wiped_unless_an_older_master_lives(tmp_path, master_pid, left):
    metrics = run_dir.claim(tmp_path / "mine") / "metrics"
    (metrics / "counter_1-0.db").touch()
    run_dir.settle(server(master_pid=master_pid, cfg=SimpleNamespace(uid=os.geteuid(), gid=os.getegid())))
    assert [path.name for path in metrics.iterdir()] == left


@pytest.mark.parametrize(
    ("master", "is_left"),
    [({}, False), ({"reexec_pid": 4711}, True), ({"master_pid": os.getppid()}, True), ({"master_pid": 4711}, False)],
)
def test_the_last_master_removes_the_folder(master, is_left):
    folder = run_dir.claim(None)
    run_dir.settle(server(**master, cfg=SimpleNamespace(uid=os.geteuid(), gid=os.getegid())))
    run_dir._remove()
    assert folder.exists() == is_left


def test_a_worker_at_its_end_leaves_the_folder(monkeypatch):
    folder = run_dir.claim(None)
    monkeypatch.setenv("_PINION_RUN_DIR_MADE", f"{os.getppid()}:{folder}")
    run_dir._remove()
    assert folder.exists()


def test_live_gauges_are_removed_like_prometheus_client_does(tmp_path):
    metrics = run_dir.claim(tmp_path / "ours") / "metrics"
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in FILES:
        (metrics / name).touch()
        (theirs / name).touch()
    run_dir.forget_gauges("1-0")
    mark_process_dead("1-0", str(theirs))
    left = {path.name for path in metrics.iterdir()}
    assert left == {path.name for path in theirs.iterdir()}
    assert len(left) == len(FILES) - 3
