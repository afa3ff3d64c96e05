"""Both parsers over many messages."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from tests.data.http.corpus import CASES, Case
from tests.data.http.differences import explanation
from tests.data.http.generated import generate
from tests.data.http.ours import Ours
from tests.data.http.reference import read_by_gunicorn

_NAMES = {-1: "not complete", 0: "a request"}


@dataclass
class Comparison:
    """What came out.

    Attributes:
        equal: number of messages with the same outcome, by status.
        different: number of messages by deliberate difference.
        faults: what nothing explains, or what our parser reads differently the second time.
    """

    equal: Counter[int] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def compare(cases: Iterable[Case]) -> Comparison:
    """Reads each message with gunicorn's parser once and with ours often enough that it is remembered."""
    result = Comparison()
    parsers: dict[str, Ours] = {}
    for case in cases:
        theirs = read_by_gunicorn(case.message, case.around)
        around = repr(case.around)
        if around not in parsers:
            parsers[around] = Ours(case.around)
        parser = parsers[around]
        ours, *again = [parser.read(case.message) for _ in range(3)]
        if any(outcome != ours for outcome in again):
            result.faults.append(f"{case}\n  first {ours}\n  later {again}")
        elif ours == theirs:
            result.equal[ours.status] += 1
        elif (rows := explanation(case, theirs, ours)) is not None:
            result.different.update(row.what for row in rows)
        else:
            result.faults.append(f"{case}\n  theirs {theirs}\n  ours {ours}")
    return result


def main(arguments: list[str]) -> int:
    """Compares the corpus and a number of generated messages; returns the exit status."""
    parser = argparse.ArgumentParser(prog="script/http-equality", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=50_000, help="generated messages")
    parser.add_argument("seed", nargs="?", type=int, default=1, help="the same seed gives the same messages")
    chosen = parser.parse_args(arguments)
    count, seed = chosen.count, chosen.seed
    result = compare(chain(CASES.values(), generate(seed, count)))
    lines = [f"{len(CASES)} messages of the corpus, {count} generated with seed {seed}"]
    for status, number in sorted(result.equal.items()):
        lines.append(f"{number:8} equal: {_NAMES.get(status, f'refused with {status}')}")
    lines += [f"{number:8} different: we {what}" for what, number in sorted(result.different.items())]
    lines += [f"FAULT {fault}" for fault in result.faults]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
