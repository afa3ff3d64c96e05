"""The queue of a model whose requests of different lengths may share a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.schedule.batcher import Batcher, Run, Ticket
from service.schedule.merging import Curve, Merging
from service.schedule.padding import Padding, join, part
from service.tensors import Array, TensorSpec


class PaddedMerging(Merging):
    """The rule of a model that is padded: the length of a request is no part of its key."""

    __slots__ = ("_axes",)

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[str],
        curve: Curve,
        limit_rows: int | None,
        delay_us: int = 0,
    ) -> None:
        """A rule as `Merging`, by a curve with its padding."""
        super().__init__(inputs, outputs, curve, limit_rows, delay_us)
        varying = curve.padding.inputs if curve.padding is not None else ()
        axes = {padded.name: padded.axis for padded in varying}
        self._axes = [(name, axes.get(name, 0)) for name in self._names]

    def place(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> tuple[int, Any]:
        """Rows of a request, and its key; None for one that is empty or whose inputs differ in length."""
        rows, key = super().place(feeds, outputs)
        if key is None:
            return rows, None
        lengths = set()
        shapes = []
        for name, axis in self._axes:
            shape = feeds[name].shape
            if not axis:
                shapes.append(shape[1:])
                continue
            lengths.add(shape[axis])
            shapes.append(shape[1:axis] + shape[axis + 1 :])
        if len(lengths) != 1 or 0 in lengths:
            return rows, None
        return rows, (outputs, *shapes)


class PaddedBatcher(Batcher):
    """A queue whose runs are filled up to their longest request."""

    __slots__ = ("_padding",)

    def __init__(self, run: Run, merging: Merging, timeout_s: float | None, padding: Padding) -> None:
        """A queue as `Batcher`, and how its requests are padded."""
        super().__init__(run, merging, timeout_s)
        self._padding = padding

    def _group(self, ticket: Ticket) -> list[Ticket]:
        """The ticket, those of its length, and all of the nearest other lengths that are worth their padding.

        Requests of one length share a run anyway: a run is saved by taking along all of another length, or by none.
        """
        with self._queue:
            by_length: dict[int, list[Ticket]] = {}
            for other in self._waiting:
                if other.key == ticket.key and other is not ticket:
                    by_length.setdefault(self._padding.length(other.feeds), []).append(other)
            group = self._worthwhile(ticket, by_length)
            taken = set(map(id, group))
            self._waiting = [other for other in self._waiting if id(other) not in taken]
        return group

    def _worthwhile(self, ticket: Ticket, by_length: Mapping[int, list[Ticket]]) -> list[Ticket]:
        padding, limit = self._padding, self.merging.limit_rows
        own = longest = padding.length(ticket.feeds)
        group, rows, wasted = [ticket], ticket.rows, 0
        for length in sorted(by_length, key=lambda length: abs(length - own)):
            alike, more = [], 0
            for other in by_length[length]:
                if rows + more + other.rows <= limit:
                    alike.append(other)
                    more += other.rows
            cost = rows * (length - longest) if length > longest else more * (longest - length)
            most = padding.max_waste * (rows + more) * max(longest, length)
            if length == own or (
                len(alike) == len(by_length[length]) and cost <= padding.worth_positions and wasted + cost <= most
            ):
                group += alike
                rows, wasted, longest = rows + more, wasted + cost, max(longest, length)
        return group

    def _joined(self, group: list[Ticket]) -> dict[str, Array]:
        return join([ticket.feeds for ticket in group], self._padding)

    def _share(self, group: list[Ticket], results: list[Array], started_ns: int, ended_ns: int) -> bool:
        first, length = group[0], self._padding.length
        shares = part(results, first.outputs, [(each.rows, length(each.feeds)) for each in group], self._padding)
        if shares is None:
            return False
        rows = sum(ticket.rows for ticket in group)
        for ticket, share in zip(group, shares, strict=True):
            ticket.settle(share, rows, leads=ticket is first)
            ticket.started_ns, ticket.ended_ns = started_ns, ended_ns
        return True
