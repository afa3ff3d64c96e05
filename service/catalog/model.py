"""A model version that is ready: its session, its signature for the wire, its queue."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from service.catalog.config import LoadedConfig, ModelConfig
from service.catalog.padding_probe import probe_padding
from service.catalog.padding_table import misfits
from service.catalog.probe import probe
from service.engine.session import Session, open_session
from service.engine.warm_up import synthetic
from service.errors import ModelLoadError, ServiceError
from service.schedule.batcher import Batcher, Ticket
from service.schedule.merging import DEFAULT_LIMIT_ROWS, Curve, Merging
from service.schedule.padded_batcher import PaddedBatcher, PaddedMerging
from service.tensors import Array, Tensor, TensorSpec
from service.wire import v2
from service.wire.signature import Signature
from service.wire.v2_plain_answer import PlainWriter, fits

_log = logging.getLogger(__name__)
_PROBE_S = 0.4
_TRITONS_DEFAULT_ROWS = 4


class Source(NamedTuple):
    """Where a model version comes from."""

    name: str
    version: str
    path: Path
    loaded: LoadedConfig


class Model:
    """One version of one model, open in this process.

    Attributes:
        name: of the model.
        version: always a string.
        key: both.
        signature: inputs and outputs for reading and writing.
        config: as configured.
        triton: what its `config.pbtxt` says, as Triton's JSON.
        notes: sentences on what of the configuration was not understood, is advice only, or isn't followed.
        providers: execution providers that serve it, in order.
        nodes: how many of its nodes each of them runs; empty where only the CPU was asked for, or unknown.
        threads: intra-op threads.
        curve: what the tests of merging and padding found.
        plain_writer: writes the answers to plain requests; None where it can't.
        load_s: seconds from opening to the end of the warm-up.
    """

    __slots__ = (
        "_batcher",
        "_session",
        "config",
        "curve",
        "key",
        "load_s",
        "name",
        "nodes",
        "notes",
        "plain_writer",
        "providers",
        "signature",
        "threads",
        "triton",
        "version",
    )

    def __init__(self, name: str, version: str, session: Session, loaded: LoadedConfig, curve: Curve | None) -> None:
        self.name = name
        self.version = version
        self.key = (name, version)
        config = self.config = loaded.config
        self.triton: Mapping[str, Any] = loaded.triton
        self.notes = loaded.notes + session.notes
        self.signature = Signature(
            session.inputs,
            session.outputs,
            dict(config.images),
            dict(config.labels),
            loaded.fast_json_bytes,
        )
        self.providers = session.providers
        self.nodes = session.nodes
        self.threads = session.threads
        self.load_s = 0.0
        self.plain_writer = PlainWriter(name, version, session.outputs) if fits(session.outputs) else None
        self._session = session
        self.curve = curve or _curve(session, config)
        self._batcher = _batcher(session, self.signature.output_names, self.curve, config)

    @property
    def max_batch_size(self) -> int:
        """Triton's view: 0 where the model has no free first dimension, else the limit (or Triton's default)."""
        if not self.curve.best_rows:
            return 0
        return self.config.max_batch_size or max(self.curve.best_rows, _TRITONS_DEFAULT_ROWS)

    def submit(self, feeds: Mapping[str, Array], outputs: tuple[str, ...]) -> Ticket:
        """Takes a place in the queue; nothing runs yet."""
        return self._batcher.submit(feeds, outputs)

    @property
    def delay_ns(self) -> int:
        """How long a request may wait for others to join its run."""
        return self._batcher.merging.delay_ns

    def patience_ns(self, ticket: Ticket) -> int:
        """How long a request may still wait for others."""
        return self._batcher.patience_ns(ticket)

    def withdraw(self, ticket: Ticket) -> bool:
        """Gives up a place whose caller has gone."""
        return self._batcher.withdraw(ticket)

    def arrays(self, ticket: Ticket) -> list[Array]:
        """The arrays that a ticket asked for, after its turn.

        Raises:
            ServiceError: what went wrong in its run.
        """
        return self._batcher.finish(ticket)

    def finish(self, ticket: Ticket) -> list[Tensor]:
        """The answer of a ticket, after its turn.

        Raises:
            ServiceError: what went wrong in its run.
        """
        arrays = self._batcher.finish(ticket)
        specs = self.signature.output_by_name
        labels = self._session.labels
        return [
            Tensor(specs[name], array, labels.get(name)) for name, array in zip(ticket.outputs, arrays, strict=True)
        ]

    def warm_up(self, folder: Path) -> None:
        """Runs before anyone waits: on the samples of the configuration, or on zeros.

        Args:
            folder: where the samples lie.

        Raises:
            ModelLoadError: a configured sample can't be read or doesn't run.
        """
        for sample in self.config.warm_up:
            try:
                request = v2.read_request((folder / sample).read_bytes(), None, self.signature)
                for _ in range(self.config.warm_up_runs):
                    self._session.run(request.feeds, request.outputs)
            except (ServiceError, OSError) as fault:
                raise ModelLoadError(f"warm-up sample {sample.name}: {fault}") from fault
        if not self.config.warm_up and self.config.warm_up_runs:
            self._run_zeros()

    def _run_zeros(self) -> None:
        served = [spec.name for spec in self.signature.outputs if spec.datatype or spec.class_map]
        feeds = synthetic(self.signature.inputs)
        if feeds is None or not served:
            return
        try:
            for _ in range(self.config.warm_up_runs):
                self._session.run(feeds, served)
        except ServiceError as fault:
            _log.info("model %s: zeros are no input for a warm-up (%s)", self.name, fault.__cause__ or fault)


def open_model(found: Source, lane_threads: int, curve: Curve | None = None) -> Model:
    """Opens and warms one version.

    Args:
        found: which, and where.
        lane_threads: intra-op threads where the configuration names no number.
        curve: what an earlier test of merging found; None to test.

    Raises:
        ModelLoadError: with the reason in words.
    """
    started_s = time.monotonic()
    loaded = found.loaded
    session = open_session(found.path, loaded.engine, lane_threads)
    unknown = loaded.config.unknown_names(
        [spec.name for spec in session.inputs], [spec.name for spec in session.outputs]
    )
    if loaded.config.padding is not None:
        unknown += [loaded.told_at("padding", told) for told in misfits(loaded.config.padding, session.inputs)]
    if unknown:
        raise ModelLoadError("; ".join(unknown))
    for note in session.notes:
        _log.warning("model %s version %s: %s", found.name, found.version, note)
    model = Model(found.name, found.version, session, loaded, curve)
    model.warm_up(found.path.parent)
    model.load_s = time.monotonic() - started_s
    return model


def _batcher(session: Session, outputs: tuple[str, ...], curve: Curve, config: ModelConfig) -> Batcher:
    rule = (session.inputs, outputs, curve, config.max_batch_size, config.max_delay_us)
    padding = curve.padding
    if padding is None:
        return Batcher(session.run, Merging(*rule), config.timeout_s)
    return PaddedBatcher(session.run, PaddedMerging(*rule), config.timeout_s, padding)


def _curve(session: Session, config: ModelConfig) -> Curve:
    served = [spec for spec in session.outputs if spec.datatype or spec.class_map]
    curve = _merging_curve(session, served, config)
    if config.padding is None:
        return curve
    return probe_padding(session.run, session.inputs, served, config.padding, curve)


def _merging_curve(session: Session, served: Sequence[TensorSpec], config: ModelConfig) -> Curve:
    if config.exact:
        return Curve(merges=False, reason="not merged: exact = true")
    if config.batching is False:
        return Curve(merges=False, reason="not merged: batching = false")
    curve = probe(session.run, session.inputs, served, config.max_batch_size or DEFAULT_LIMIT_ROWS, _PROBE_S)
    if config.batching and not curve.merges and curve.rows_us:
        return Curve(True, "merged: batching = true", curve.rows_us, DEFAULT_LIMIT_ROWS, curve.deviation)
    return curve
