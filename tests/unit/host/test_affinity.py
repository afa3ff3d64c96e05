import os
import subprocess
import sys
import threading

import pytest

from service.host import affinity

CPUS = sorted(os.sched_getaffinity(0))
CHURN = """
import threading, time
def short(): time.sleep(0.001)
print("up", flush=True)
while True:
    threads = [threading.Thread(target=short) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


@pytest.fixture
def restless():
    """A process whose threads come and go all the time."""
    with subprocess.Popen([sys.executable, "-c", CHURN], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_every_thread_gets_the_mask_while_threads_come_and_go(restless):
    for cpus in ({CPUS[0]}, set(CPUS), {CPUS[-1]}):
        affinity.pin(restless.pid, cpus)
        assert set(affinity.read_masks(restless.pid).values()) == {frozenset(cpus)}


def test_the_masks_of_all_threads_are_read():
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        assert affinity.read_masks(os.getpid())[thread.native_id] == frozenset(CPUS)
    finally:
        event.set()
        thread.join()


def test_a_process_that_is_gone_is_an_error():
    with subprocess.Popen(["true"]) as process:
        process.wait()
        with pytest.raises(ProcessLookupError):
            affinity.pin(process.pid, CPUS)


def test_a_mask_without_a_usable_cpu_is_refused():
    with pytest.raises(OSError, match="Invalid argument"):
        affinity.pin(os.getpid(), {1000})
