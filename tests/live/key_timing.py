"""Does the time of an answer tell anything about a key? Compares kinds of keys of the same length, asked in turns.

In this process: what looking at a key takes, a right one among them. Over HTTP, a new head each time: wrong keys that
begin or end like a right one, and ids that don't exist. Kinds are compared by the medians of blocks: they differ if
the difference is more than five times its own error and more than what network measurements can see.

Exits with 1 if two kinds differ.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from service.guard import keys
from service.guard.keyring import Keyring
from tests.live.raw import Client, request
from tests.live.server import Server

ROUNDS_HERE, ROUNDS_HTTP, BLOCKS = 40_000, 6_000, 40
SIGMAS, VISIBLE_HERE_NS, VISIBLE_HTTP_NS = 5.0, 50, 2_000


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def kinds(key):
    identity, _, secret = key.partition(".")
    other = {"A": "B"}
    return {
        "right": key,
        "first letter wrong": f"{identity}.{other.get(secret[0], 'A')}{secret[1:]}",
        "last letter wrong": f"{key[:-1]}{other.get(key[-1], 'A')}",
        "all letters wrong": f"{identity}.{'_' * len(secret)}",
        "no such id": f"{'x' * len(identity)}.{secret}",
    }


def measure(take, names, rounds):
    """Nanoseconds of each kind, in a new order each round."""
    taken_ns = {name: [] for name in names}
    order = list(names)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            taken_ns[name].append(take(name))
    return taken_ns


def compare(taken_ns, base, visible_ns):
    """Prints the kinds; returns how many differ from `base`."""
    differ = 0
    for name, times in taken_ns.items():
        size = len(times) // BLOCKS
        gaps = [
            statistics.median(times[at : at + size]) - statistics.median(taken_ns[base][at : at + size])
            for at in range(0, size * BLOCKS, size)
        ]
        gap, error = statistics.fmean(gaps), statistics.stdev(gaps) / BLOCKS**0.5
        tells = name != base and abs(gap) > max(SIGMAS * error, visible_ns)
        differ += tells
        verdict = "  TELLS SOMETHING" if tells else ""
        say(f"  {name:20} median {statistics.median(times) / 1e3:8.2f} µs, {gap:+8.1f} ± {error:6.1f} ns{verdict}")
    return differ


def looked_at(shown, line):
    ring = Keyring(None, line)

    def take(name):
        began_ns = time.perf_counter_ns()
        ring.verify(shown[name])
        return time.perf_counter_ns() - began_ns

    return take


def main():
    key, line = keys.make("somebody", ["infer"], None, None)
    shown = kinds(key)
    say("looking at a key:")
    differ = compare(measure(looked_at(shown, line), shown, ROUNDS_HERE), "right", VISIBLE_HERE_NS)
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder), pinion_api_keys=line, pinion_log_level="error") as server,
        Client(server.port) as client,
    ):

        def take(name):
            asked = request("GET", "/v2", None, X_API_Key=shown[name], X_Request_Id=f"{random.getrandbits(64):016x}")
            began_ns = time.perf_counter_ns()
            status = client.send(asked).answer().status
            taken_ns = time.perf_counter_ns() - began_ns
            assert status == 401
            return taken_ns

        say("a wrong key over HTTP:")
        wrong = [name for name in shown if name != "right"]
        differ += compare(measure(take, wrong, ROUNDS_HTTP), "all letters wrong", VISIBLE_HTTP_NS)
    say("kinds can be told apart" if differ else "no kind can be told from another")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
