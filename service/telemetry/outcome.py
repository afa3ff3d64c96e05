"""What is known of a request when it is over."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Timing(NamedTuple):
    """The figures of one request, in the order in which the tally adds them up.

    Attributes:
        rows: items in the request.
        batch_rows: rows of the run that answered it.
        leads: whether it stands for its run in the count of executions.
        read_ns: from arrival until it was understood.
        queue_ns: from then until its run began.
        run_ns: of the run that answered it.
        write_ns: from the run's end until the answer was written.
        total_ns: from arrival until the answer was written.
    """

    rows: int
    batch_rows: int
    leads: bool
    read_ns: int
    queue_ns: int
    run_ns: int
    write_ns: int
    total_ns: int


Figures: TypeAlias = tuple[int, int, bool, int, int, int, int, int]
"""A `Timing` without its names, which cost half a microsecond to give."""


class Outcome(NamedTuple):
    """One inference that has been answered.

    Attributes:
        model: None where the request named none that there is.
        version: that answered.
        request_id: in the answer and every line of the log.
        method: of the request.
        path: of the request.
        client: address.
        status: of the answer.
        error: the error's kind, None for success.
        executed: whether the model ran.
        timing: the figures.
        bytes_in: of the body on the wire.
        bytes_out: of the answer's body.
        key: id of the API key that it was asked with.
    """

    model: str | None
    version: str | None
    request_id: str
    method: str
    path: str
    client: str
    status: int
    error: str | None
    executed: bool
    timing: Timing
    bytes_in: int
    bytes_out: int
    key: str | None = None

    def path_text(self, longest_bytes: int) -> str:
        """The path, or its beginning, as a text; PEP 3333 gives the bytes of a path as Latin-1."""
        return self.path[:longest_bytes].encode("latin-1", "replace").decode("utf-8", "replace")
