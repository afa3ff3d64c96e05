"""`python -m service COMMAND`: what operators ask beside a running service."""

from __future__ import annotations

import difflib
import importlib
import sys

COMMANDS = {
    "plan": "show the lanes of cores that workers get on this machine, or on a recorded one",
    "check": "show every setting with its origin, and all that is wrong with the configuration",
    "key": "make an API key and the line that keeps it in PINION_API_KEYS_FILE",
    "health": "ask the running service whether it is ready; exit status 0 or 1",
}


def main(arguments: list[str]) -> int:
    """Runs one command; returns the exit status, 2 for a command that there isn't."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"unknown command '{name}'{hint}\n\n{usage()}", file=sys.stderr)
        return 2
    status: int = importlib.import_module(f"service.cli.{name}").main(rest)
    return status


def usage() -> str:
    """The list of commands."""
    lines = "\n".join(f"  {name:8} {sentence}" for name, sentence in COMMANDS.items())
    return f"usage: python -m service COMMAND [...]\n\n{lines}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
