"""`python -m service health`: is the service on this machine ready? For health checks of containers."""

from __future__ import annotations

import argparse
import os
import sys
import urllib.error
import urllib.request

from service.errors import ConfigurationError
from service.settings import resolve

_PATH = "/v2/health/ready"


def main(arguments: list[str]) -> int:
    """Asks once; returns 0 for ready, 1 for anything else, with a sentence that says which."""
    parser = argparse.ArgumentParser(prog="python -m service health", description=__doc__)
    parser.add_argument("--url", help="address of the service; by default the port of the settings on this machine")
    parser.add_argument("--timeout-s", type=float, default=5.0, help="seconds to wait for the answer (5)")
    options = parser.parse_args(arguments)
    try:
        url = options.url or f"http://127.0.0.1:{resolve(os.environ).settings.port or 8000}"
    except ConfigurationError as fault:
        print(fault, file=sys.stderr)
        return 1
    return ask(url.rstrip("/") + _PATH, options.timeout_s)


def ask(url: str, timeout_s: float) -> int:
    """Asks one address; 0 if it says ready."""
    if not url.startswith(("http://", "https://")):
        print(f"expected an address that starts with http:// or https://, got {url}", file=sys.stderr)
        return 1
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - the scheme is checked above
            print(f"ready: {url} answered {answer.status}")
            return 0
    except urllib.error.HTTPError as error:
        with error:
            print(f"not ready: {url} answered {error.code}: {error.read(500).decode(errors='replace')}")
    except OSError as fault:
        print(f"not ready: {url} can't be reached: {fault}; does it run? Another address is given by --url or PORT")
    return 1
