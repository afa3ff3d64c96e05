"""This service, plain Flask under gunicorn and the bare `session.run` loop, interleaved in one run.

    script/bench                                            # a few minutes
    script/bench --models iris,small --connections 1,16 --rounds 5 --json result.json
    script/bench --models wide --open 0.5,0.8 --server-cpus 0-3 --client-cpus 4-7

Closed loop: every connection asks again when it is answered. Open loop (`--open`): Poisson arrivals at a fraction of
what the same server reached in the closed loop with the most connections, latency from the intended start. Every
answer's first copy is compared with the model's. Quote the ratios: other work on the machine moves all figures.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.contenders import Bare, PlainFlask, Served, Service
from bench.models import NAMES, ROOT, make

WARM_UP_S = 0.3
COLUMNS = ("rate", "cpu_us", "p50_ms", "p99_ms", "p999_ms")


class Cell(NamedTuple):
    """What one line of the table is about."""

    model: str
    form: str
    load: str
    contender: str


def cpu_set(text: str) -> set[int]:
    """`0-2,5` to the numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def numbers(text: str) -> list[int]:
    """`1,4` to the numbers."""
    return [int(part) for part in text.split(",")]


def fractions(text: str) -> list[float]:
    """`0.5,0.8` to the numbers."""
    return [float(part) for part in text.split(",") if part]


def parsed() -> argparse.Namespace:
    """The command line."""
    here = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="script/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="iris,tiny,small,wide", help=f"of {', '.join(NAMES)}, or all")
    parser.add_argument("--formats", default="json", help="json, binary, or both with a comma")
    parser.add_argument("--connections", type=numbers, default=[1, 4, 16, 64])
    parser.add_argument(
        "--open", type=fractions, default=[0.5], help="fractions of the closed loop's rate; '' for none"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of all measurements; medians are shown")
    parser.add_argument("--server-cpus", type=cpu_set, default={here[0]}, help="one worker for each (%(default)s)")
    parser.add_argument("--client-cpus", type=cpu_set, default={here[-1]}, help="of the load generator (%(default)s)")
    parser.add_argument("--without-flask", action="store_true")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    arguments = parser.parse_args()
    arguments.models = list(NAMES) if arguments.models == "all" else arguments.models.split(",")
    arguments.formats = arguments.formats.split(",")
    for given, known in ((arguments.models, NAMES), (arguments.formats, ("json", "binary"))):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"expected some of {', '.join(known)}, got {', '.join(unknown)}")
    if not (arguments.server_cpus | arguments.client_cpus) <= set(here):
        parser.error(f"expected CPUs of {here}, which this process may use")
    return arguments


class Load(NamedTuple):
    """What is asked for, and how fast: in a closed loop if `rate` is 0, else that many a second."""

    form: str
    connections: int
    rate: float
    seed: int


def loaded(served: Served, load: Load, arguments: argparse.Namespace) -> dict[str, float]:
    """One measurement by a load generator of its own."""
    job = {
        "port": served.port,
        "pids": served.pids(),
        "request": base64.b64encode(served.request(load.form)).decode(),
        "connections": load.connections,
        "rate": load.rate,
        "seconds": arguments.seconds,
        "warm_up_s": WARM_UP_S,
        "seed": load.seed,
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        cwd=ROOT,
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=arguments.seconds + 90,
        preexec_fn=lambda: os.sched_setaffinity(0, arguments.client_cpus),
        check=False,
    )
    if done.returncode:
        sys.exit(f"{served.name}, {served.model.name}, {load.connections} connections: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(name: str, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[Cell, dict[str, float]]]:
    """All measurements of one model, contenders interleaved."""
    model = make(name, folder)
    kinds: list[type[Served]] = [Service] if arguments.without_flask else [Service, PlainFlask]
    with ExitStack() as stack:
        bare = Bare(model, min(arguments.server_cpus))
        stack.callback(bare.stop)
        served = []
        for kind in kinds:
            served.append(kind(model, folder, arguments.server_cpus))
            stack.callback(served[-1].stop)
        for server in served:
            server.wait()
            for form in forms_of(server, arguments):
                server.verify(form)
        for seed in range(arguments.rounds):
            yield Cell(name, "-", "closed 1", bare.shown), bare.measure(arguments.seconds)
            for server in served:
                for form in forms_of(server, arguments):
                    yield from one_round(server, form, arguments, seed)


def forms_of(server: Served, arguments: argparse.Namespace) -> list[str]:
    """The forms that a server knows, of those asked for."""
    return ["json"] if isinstance(server, PlainFlask) else list(arguments.formats)


def one_round(
    server: Served, form: str, arguments: argparse.Namespace, seed: int
) -> Iterator[tuple[Cell, dict[str, float]]]:
    """Closed loops, then open ones."""
    rate = 0.0
    for connections in arguments.connections:
        found = loaded(server, Load(form, connections, 0.0, seed), arguments)
        rate = found["rate"]
        yield Cell(server.model.name, form, f"closed {connections}", server.shown), found
    for fraction in arguments.open:
        found = loaded(server, Load(form, max(arguments.connections), rate * fraction, seed), arguments)
        yield Cell(server.model.name, form, f"open {fraction:g}", server.shown), found


def main() -> int:
    """Prints the table; 1 if a request failed."""
    arguments = parsed()
    found: dict[Cell, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        for name in arguments.models:
            for cell, figures in measured(name, Path(made), arguments):
                found[cell].append(figures)
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join(table(found, len(arguments.server_cpus))))
    if arguments.json:
        lines = [{**cell._asdict(), "rounds": rounds} for cell, rounds in found.items()]
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(figures["failures"] for rounds in found.values() for figures in rounds))


def table(found: dict[Cell, list[dict[str, float]]], workers: int) -> list[str]:
    """Medians over the rounds, and the rate beside that of as many bare loops."""
    lines = [
        "| model | format | load | server | requests/s | of bare | CPU µs | P50 ms | P99 ms | P99.9 ms | failed |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    bare: dict[str, float] = {}
    for cell, rounds in sorted(found.items(), key=lambda item: list(found).index(item[0])):
        rate, cpu_us, p50, p99, p999 = (statistics.median(one[column] for one in rounds) for column in COLUMNS)
        if cell.contender == Bare.shown:
            bare[cell.model] = rate * workers
        failures = sum(int(one["failures"]) for one in rounds)
        lines.append(
            f"| {cell.model} | {cell.form} | {cell.load} | {cell.contender} | {rate:,.0f} | "
            f"{rate / bare[cell.model]:.3f} | {cpu_us:.1f} | {p50:.3f} | {p99:.3f} | {p999:.3f} | {failures} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
