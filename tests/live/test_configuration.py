"""Wrong configurations, as an operator meets them: everything at once, with its place, and never a traceback."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.live.processes import CASE_MODEL, infer, repository
from tests.live.server import ROOT, Server, free_port

WRONG_CONF = """
worker = 3
keepalive = -5


def post_forkk(server, worker):
    pass
"""
WRONG_TRITON = """
name: "triton"
max_batch_size: -1
sequence_batching { }
"""
WRONG = {
    "PORT": "http",
    "WEB_CONCURRENCY": "two",
    "PINION_OPERATOR_BIND": "nowhere",
    "PINION_READY": "right, ghost",
    "PINION_RAEDY": "any",
    "PINION_DRAIN_S": "-1",
    "GUNICORN_CMD_ARGS": "--threads many",
}
SHIPPED_LINES = len((ROOT / "gunicorn.conf.py").read_text().splitlines())


def run(folder, *command, **variables):
    """A command in a folder of an operator, with the service in the path and only these variables set."""
    kept = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("COVERAGE")}
    environ = {**kept, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def home(tmp_path):
    """A folder with the shipped gunicorn.conf.py and one right model."""
    shutil.copyfile(ROOT / "gunicorn.conf.py", tmp_path / "gunicorn.conf.py")
    repository(tmp_path / "models", CASE_MODEL, "right", "timeout_s = 5")
    return tmp_path


def spoil(home):
    with (home / "gunicorn.conf.py").open("a") as conf:
        conf.write(WRONG_CONF)
    models = home / "models"
    repository(models, CASE_MODEL, "keys", 'thread = 1\nspin = "yes"\n\nfree_dimensions = {n = 0}\n')
    repository(models, CASE_MODEL, "slow", "# Patience.\ntimeout_s = 60\n")
    repository(models, CASE_MODEL, "card", '\n\nproviders = ["cuda", "cpu"]\n')
    repository(models, CASE_MODEL, "text", "spin = \n")
    repository(models, CASE_MODEL, "triton", "threads = 0")
    (models / "triton" / "config.pbtxt").write_text(WRONG_TRITON)
    (models / "empty").mkdir()


def test_check_tells_every_fault_of_every_file_and_variable_at_once(home):
    spoil(home)
    done = run(home, "-m", "service", "check", **WRONG)
    told = [line.removeprefix("problem: ") for line in done.stdout.splitlines() if line.startswith("problem: ")]
    for beginning in (
        "PORT: expected a port from 0 to 65535, got 'http'",
        "WEB_CONCURRENCY: expected a whole number from 1 on, got 'two'",
        "PINION_OPERATOR_BIND: expected an address, `host:port` or `unix:path`, got 'nowhere'",
        "PINION_READY: there is no model 'ghost' in the repository; it has card, ",
        "PINION_RAEDY: unknown setting; did you mean PINION_READY?",
        "PINION_DRAIN_S: expected a number of seconds from 0 on, got '-1'",
        "GUNICORN_CMD_ARGS: argument --threads: invalid int value: 'many'",
        f"gunicorn.conf.py:{SHIPPED_LINES + 2}: gunicorn has no setting 'worker'",
        f"gunicorn.conf.py:{SHIPPED_LINES + 3}: gunicorn refuses keepalive = -5: ",
        f"gunicorn.conf.py:{SHIPPED_LINES + 6}: gunicorn has no setting 'post_forkk'",
        "model keys: model.toml:1: `thread`: unknown key; did you mean `threads`?",
        "model keys: model.toml:2: `spin`: expected true or false, got 'yes'",
        "model keys: model.toml:4: `free_dimensions.n`: expected a whole number from 1 ",
        "model slow: model.toml:2: `timeout_s` is 60, expected less than gunicorn's `timeout` of 30",
        "model card: model.toml:3: execution provider CUDAExecutionProvider is not in this ONNX Runtime",
        "model text: model.toml:1: ",
        "model triton: model.toml:1: `threads`: expected a whole number from 1 to 1024, got 0",
        "model triton: config.pbtxt:3: `max_batch_size` ",
        "model triton: config.pbtxt:4: `sequence_batching` ",
        "model empty: ",
    ):
        (found,) = [line for line in told if line.startswith(beginning)] or [None]
        assert found is not None, f"{beginning}\n{done.stdout}"
        told.remove(found)
    assert told == []
    assert done.stdout.splitlines()[-1] == "20 problem(s)"
    assert (done.returncode, done.stderr) == (1, "")


def test_check_of_a_right_configuration(home):
    done = run(
        home, "-m", "service", "check", PINION_READY="right", GUNICORN_CMD_ARGS="--timeout 6", WEB_CONCURRENCY="2"
    )
    assert done.stdout.splitlines()[-1] == "No problem was found."
    assert (done.returncode, done.stderr) == (0, "")


def test_check_knows_the_timeout_of_the_command_line(home):
    done = run(home, "-m", "service", "check", GUNICORN_CMD_ARGS="--timeout 4")
    assert "model right: model.toml:1: `timeout_s` is 5, expected less than gunicorn's `timeout` of 4" in done.stdout
    assert done.returncode == 1


def test_check_allows_the_next_provider_where_the_service_does(home):
    repository(home / "models", CASE_MODEL, "card", 'providers = ["cuda", "cpu"]')
    done = run(home, "-m", "service", "check", PINION_ON_MISSING_PROVIDER="next")
    assert "note: model card: model.toml:1: execution provider CUDAExecutionProvider is not in this" in done.stdout
    assert done.returncode == 0


def problems_of(home, *arguments, **variables):
    done = run(home, "-m", "service", "check", *arguments, **variables)
    assert (done.returncode != 0, done.stderr) == ("problem: " in done.stdout, "")
    return [line.removeprefix("problem: ") for line in done.stdout.splitlines() if line.startswith("problem: ")]


def change(home, old, new):
    conf = home / "gunicorn.conf.py"
    text = conf.read_text()
    assert old in text
    conf.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("pre_fork = hooks.pre_fork\n", "", "gunicorn.conf.py: pre_fork is not set; "),
        ("child_exit = hooks.child_exit\n", "", "gunicorn.conf.py: child_exit is not set; "),
        ("settings.workers or start.default_workers()", "0", "workers: expected 1 or more, got 0"),
        ("service.prefork.worker.GatherWorker", "gevent", "worker_class: expected one of service.prefork.worker."),
        ("graceful_timeout = 25", "graceful_timeout = 3", "PINION_DRAIN_S is 4, expected less than gunicorn's"),
    ],
)
def test_what_gunicorn_takes_and_cannot_work_is_told(home, old, new, sentence):
    change(home, old, new)
    (told,) = problems_of(home, PINION_DRAIN_S="4")
    assert told.startswith(sentence)


def test_the_start_warns_of_what_check_would_tell(home):
    change(home, "timeout = 30\n", "timout = 30\n")
    change(home, "child_exit = hooks.child_exit\n", "")
    conf = str(home / "gunicorn.conf.py")
    with Server(home, "-c", conf, models=home / "models", pinion_drain_s=24.9) as server:
        log = server.log()
    line = 1 + (home / "gunicorn.conf.py").read_text().splitlines().index("timout = 30")
    assert (
        f"[WARNING] {conf}:{line}: gunicorn has no setting 'timout' and would ignore it; did you mean timeout?" in log
    )
    assert "[WARNING] gunicorn.conf.py: child_exit is not set; " in log
    assert "expected less than" not in log


def test_check_opens_every_model(home):
    broken = home / "models" / "broken"
    broken.mkdir()
    (broken / "model.onnx").write_bytes(b"none!")
    (told,) = problems_of(home)
    assert told.startswith("model broken version 1: ")
    assert problems_of(home, "--no-load") == []


def test_check_and_plan_make_no_folder(home):
    wanted = home / "a" / "b"
    assert problems_of(home, PINION_RUN_DIR=str(wanted)) == []
    run(home, "-m", "service", "plan", PINION_RUN_DIR=str(wanted))
    assert not wanted.parent.exists()
    (told,) = problems_of(home, PINION_RUN_DIR="/proc/none/x")
    assert told.startswith("PINION_RUN_DIR: expected a folder that can be written, got /proc/none/x: [Errno ")


def test_plan_sees_the_workers_of_the_file_and_the_command_line(home):
    change(home, "settings.workers or start.default_workers()", "3")
    assert "3 workers " in run(home, "-m", "service", "plan").stdout
    assert "5 workers " in run(home, "-m", "service", "plan", GUNICORN_CMD_ARGS="-w 5").stdout


@pytest.mark.parametrize("number", ["", "two"])
def test_a_number_of_workers_that_gunicorn_itself_could_not_read(home, number):
    done = run(home, "-m", "service", "check", WEB_CONCURRENCY=number, PINION_WORKERS="1")
    assert f"problem: WEB_CONCURRENCY: expected a whole number, got '{number}'" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


def test_gunicorn_ends_with_every_wrong_variable_and_no_traceback(home):
    variables = {name: value for name, value in WRONG.items() if name.startswith("PINION_")}
    done = run(home, "-m", "gunicorn", f"--pythonpath={ROOT}", "wsgi:app", **variables)
    assert done.stderr.splitlines() == [
        "The configuration can't be used:",
        "  PINION_OPERATOR_BIND: expected an address, `host:port` or `unix:path`, got 'nowhere'",
        "  PINION_DRAIN_S: expected a number of seconds from 0 on, got '-1'",
        "  PINION_RAEDY: unknown setting; did you mean PINION_READY?",
    ]
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PINION_MODELS", "/nowhere", "expected a folder with models, got /nowhere, which isn't one"),
        ("PINION_RUN_DIR", "/proc/none", "expected a folder that can be written, got /proc/none"),
    ],
)
def test_gunicorn_ends_with_a_sentence_on_a_folder_that_cannot_be_used(home, name, value, sentence):
    done = run(home, "-m", "gunicorn", f"--bind=127.0.0.1:{free_port()}", "wsgi:app", **{name: value})
    assert done.stderr.splitlines()[1].startswith(f"  {name}: {sentence}")
    assert len(done.stderr.splitlines()) == 2
    assert done.returncode == 1


TOO_LONG = "expected less than gunicorn's `timeout` of 8: a worker could be killed before the request's time is up"


def test_a_model_that_may_take_longer_than_a_worker_is_told_at_the_start(tmp_path):
    models = tmp_path / "models"
    repository(models, CASE_MODEL, "quick", "timeout_s = 7.5")
    repository(models, CASE_MODEL, "slow", "\ntimeout_s = 60")
    repository(models, CASE_MODEL, "unsaid")
    with Server(tmp_path, "--timeout", "8", models=models) as server:
        notes = {name: server.json(f"/v2/models/{name}")["properties"]["notes"] for name in ("quick", "slow", "unsaid")}
        assert notes == {
            "quick": "",
            "slow": f"model.toml:2: `timeout_s` is 60, {TOO_LONG}",
            "unsaid": f"`timeout_s` is 10 (its default), {TOO_LONG}",
        }
        warned = [line.partition("[WARNING] ")[2] for line in server.log().splitlines() if "timeout_s" in line]
        assert warned == [f"model {name}: {notes[name]}" for name in ("slow", "unsaid")]
        assert infer(server.url, [1, 64], "slow").status_code == 200


def test_without_a_timeout_of_gunicorn_every_time_will_do(tmp_path):
    repository(tmp_path / "models", CASE_MODEL, "slow", "timeout_s = 60")
    with Server(tmp_path, "--timeout", "0", models=tmp_path / "models") as server:
        assert server.json("/v2/models/slow")["properties"]["notes"] == ""
        assert "timeout_s" not in server.log()
