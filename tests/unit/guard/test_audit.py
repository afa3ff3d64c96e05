import json
import logging
import os
import resource
import signal
import time
from datetime import datetime

import pytest

from service.guard import audit as audit_module
from service.guard.audit import Audit


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_lines_leave_together_and_are_read_by_their_owner_only(tmp_path, monkeypatch):
    writes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(fd) or real(fd, data))
    book = Audit(tmp_path / "audit")
    book.note("request", key="a", status=200)
    assert len(writes) == 1
    book.gather()
    for number in range(3):
        book.note("request", key="b", path="é\x00\n\udcff", number=number)
    book.flush()
    book.flush()
    assert len(writes) == 2
    lines = events(tmp_path / "audit")
    assert [line.get("number") for line in lines] == [None, 0, 1, 2]
    assert lines[0] | {"time": ""} == {"time": "", "event": "request", "pid": os.getpid(), "key": "a", "status": 200}
    assert lines[1]["path"] == "é\x00\n?"
    assert abs(datetime.fromisoformat(lines[1]["time"]).timestamp() - time.time()) < 60
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_moved_away_is_followed_by_a_new_one(tmp_path):
    book = Audit(tmp_path / "audit")
    book.look()
    book.note("one")
    (tmp_path / "audit").rename(tmp_path / "audit.1")
    book.note("two")
    book.look()
    book.note("three")
    book.look()
    book.note("four")
    assert [line["event"] for line in events(tmp_path / "audit.1")] == ["one", "two"]
    assert [line["event"] for line in events(tmp_path / "audit")] == ["three", "four"]


@pytest.fixture
def small_disk():
    """The kernel refuses to let files of this process grow, as a full disk does; undone by calling it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (before[0] if size is None else size, before[1]))

    yield limit
    limit(None)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_told_once_and_nothing_is_lost_that_waits(tmp_path, caplog, monkeypatch, small_disk):
    monkeypatch.setattr(audit_module, "_AGAIN_S", 0.0)
    book = Audit(tmp_path / "audit")
    book.note("request", number=0)
    small_disk((tmp_path / "audit").stat().st_size + 20)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 5):
            book.note("request", number=number)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "requests are answered on" in caplog.text
        small_disk(None)
        book.note("request", number=5)
    assert "is written again" in caplog.text
    whole = [line for line in (tmp_path / "audit").read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["number"] for line in whole] == [0, 1, 2, 3, 4, 5]


def test_what_does_not_fit_is_counted_and_the_book_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_module, "_MOST_WAITING", 2)
    monkeypatch.setattr(audit_module, "_AGAIN_S", 0.0)
    lost = []
    book = Audit(tmp_path / "folder" / "audit", lost.append)
    for number in range(5):
        book.note("request", number=number)
    assert lost == [1, 1, 1]
    (tmp_path / "folder").mkdir()
    book.flush()
    book.note("request", number=5)
    found = [(line["event"], line.get("number", line.get("lost"))) for line in events(tmp_path / "folder" / "audit")]
    assert found == [("request", 0), ("request", 1), ("gap", 3), ("request", 5)]


def test_between_two_tries_nothing_is_tried(tmp_path):
    book = Audit(tmp_path / "folder" / "audit")
    book.note("one")
    (tmp_path / "folder").mkdir()
    book.note("two")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_child_has_a_book_of_its_own(tmp_path):
    book = Audit(tmp_path / "audit")
    book.note("parent")
    book.gather()
    book.note("waits")
    child = os.fork()
    if not child:
        book.flush()
        book.note("child")
        book.flush()
        os._exit(0)
    os.waitpid(child, 0)
    book.flush()
    assert [line["event"] for line in events(tmp_path / "audit")] == ["parent", "child", "waits"]
