"""One line a request, whatever the request holds."""

from __future__ import annotations

import os
import select

import orjson
import pytest

from service.telemetry.journal import Journal, line
from tests.unit.telemetry.outcomes import SUCCESS, failed


def written(journal, write_fd, read_fd, outcome):
    journal.note(outcome)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("every_request", "outcome", "lines"),
    [(False, SUCCESS, 0), (True, SUCCESS, 1), (False, failed("m", 400, "x"), 1), (False, failed("m", 500, "x"), 1)],
)
def test_failures_always_successes_when_asked(every_request, outcome, lines):
    read_fd, write_fd = os.pipe()
    journal = Journal(every_request=every_request, fd=write_fd)
    assert written(journal, write_fd, read_fd, outcome).count(b"\n") == lines


def test_a_line_says_what_happened():
    told = orjson.loads(line(SUCCESS))
    assert told.pop("time").endswith("+00:00")
    assert told.pop("pid") == os.getpid()
    assert told == {
        "level": "info",
        "event": "request",
        "request_id": "id-1",
        "client": "127.0.0.1",
        "method": "POST",
        "path": "/v2/models/m/infer",
        "status": 200,
        "model": "m",
        "version": "1",
        "error": None,
        "batch": 1,
        "queue_ms": 0.001,
        "run_ms": 0.4,
        "total_ms": 0.451,
        "bytes_in": 100,
        "bytes_out": 200,
    }


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (404, "warning"), (500, "error"), (503, "error")])
def test_the_level_follows_the_status(status, level):
    assert orjson.loads(line(failed("m", status, None)))["level"] == level


def test_nothing_in_a_request_breaks_the_line():
    hostile = '/v2\n{"level": 1}\r\x1b[2J\x00\x85'
    text = line(SUCCESS._replace(path=hostile, model="a\nb\udcff", method="GET\n"))
    assert text.count(b"\n") == 1
    assert text.endswith(b"}\n")
    assert not any(byte < 32 for byte in text[:-1])
    assert orjson.loads(text)["model"] == "a\nb?"


def test_a_path_is_shown_as_the_caller_wrote_it():
    path = "/v2/models/größe".encode().decode("latin-1")
    assert orjson.loads(line(SUCCESS._replace(path=path)))["path"] == "/v2/models/größe"


def test_the_longest_line_is_one_write_of_a_pipe():
    worst = SUCCESS._replace(path="\x00" * 9999, model="\x01" * 255, method="M" * 9999, request_id='"' * 128)
    assert len(line(worst)) <= select.PIPE_BUF


def test_a_reader_that_has_gone_fails_nothing():
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    Journal(every_request=True, fd=write_fd).note(SUCCESS)
    os.close(write_fd)


def test_a_full_pipe_fails_nothing():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    journal = Journal(every_request=True, fd=write_fd)
    for _ in range(1000):
        journal.note(SUCCESS)
    text = os.read(read_fd, 1 << 20)
    os.close(read_fd)
    os.close(write_fd)
    assert all(orjson.loads(each)["status"] == 200 for each in text.splitlines())
