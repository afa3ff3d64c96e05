"""`python -m service key ID`: makes an API key, and the line that keeps it in the file of keys."""

from __future__ import annotations

import argparse
import sys

from service.errors import ConfigurationError
from service.guard import keys


def main(arguments: list[str]) -> int:
    """Prints the key to stderr, its line to stdout, so that `>> FILE` keeps the line only; returns 1 for bad words."""
    parser = argparse.ArgumentParser(prog="python -m service key", description=__doc__)
    parser.add_argument("id", help="names the key in logs: letters, digits, - and _")
    parser.add_argument("--scopes", default="infer,metadata", help=f"of {', '.join(keys.SCOPES)}; with commas")
    parser.add_argument("--models", help="names of models with commas, * and ? allowed; without it all models")
    parser.add_argument("--rate", type=float, help="requests a second over all workers; without it the setting's")
    options = parser.parse_args(arguments)
    try:
        key, line = keys.make(options.id, options.scopes.split(","), options.models, options.rate)
    except ConfigurationError as fault:
        print("\n".join(fault.problems), file=sys.stderr)
        return 1
    print(f"The key, shown once (the line for the file of keys doesn't give it back):\n{key}", file=sys.stderr)
    print(line)
    return 0
