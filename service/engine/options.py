"""How a session is opened: what an operator may choose, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """An execution provider by ONNX Runtime's name, with its options."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


CPU = Provider("CPUExecutionProvider")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of a session.

    Attributes:
        providers: in the order wanted.
        on_missing_provider: `fail`, or go on with the `next` in the list.
        threads: intra-op threads; None for those of the lane.
        graph_optimization: `all`, `extended`, `basic` or `off`.
        free_dimensions: lengths for named free dimensions.
        spin: whether intra-op threads wait actively.
        spin_duration_us: for how long; None for ONNX Runtime's own.
        memory_pattern: None for on where all shapes are fixed.
        memory_arena: whether the CPU arena keeps memory between runs.
        entries: further session configuration entries of ONNX Runtime.
    """

    providers: tuple[Provider, ...] = (CPU,)
    on_missing_provider: str = "fail"
    threads: int | None = None
    graph_optimization: str = "all"
    free_dimensions: tuple[tuple[str, int], ...] = ()
    spin: bool = False
    spin_duration_us: int | None = None
    memory_pattern: bool | None = None
    memory_arena: bool = True
    entries: tuple[tuple[str, str], ...] = ()
