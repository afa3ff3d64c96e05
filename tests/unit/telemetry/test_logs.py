"""The service's log lines."""

from __future__ import annotations

import logging
import subprocess
import sys

from service.telemetry.logs import OneLine

SCRIPT = """
import logging
from service.telemetry import logs
{before}
logs.set_up("info")
logs.set_up("info")
log = logging.getLogger("service.engine.session")
log.debug("hidden")
log.info("model %s is ready", "a\\nb\\x1b[2J")
try:
    raise ValueError("reason")
except ValueError:
    log.exception("request %s: internal error", "id-7")
"""


def output(before=""):
    script = SCRIPT.format(before=before)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr


def test_lines_have_gunicorns_form_and_come_once():
    first, *rest = output().splitlines()
    assert first.endswith("] [INFO] model a\\x0ab\\x1b[2J is ready")
    assert first.startswith("[20")
    assert rest[0].endswith("[ERROR] request id-7: internal error")


def test_a_traceback_follows_its_line():
    lines = output().splitlines()
    assert lines[2] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: reason"


def test_a_program_with_its_own_logging_keeps_it():
    lines = output('logging.basicConfig(format="own %(message)s")').splitlines()
    assert lines[0] == "own model a"
    assert sum(line.startswith("own request id-7") for line in lines) == 1


def test_the_formatter_escapes_what_would_break_a_line():
    record = logging.LogRecord("service", logging.INFO, __file__, 1, "path %s", ("/a\r\n\x85b\té",), None)
    assert OneLine("%(message)s").format(record) == "path /a\\x0d\\x0a\\x85b\\x09é"
