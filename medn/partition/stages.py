"""A model as a pipeline: consecutive layers in stages, one stage per device, the slowest stage as fast as possible."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.table import Array
from medn.partition.exact_sums import Whole, as_numbers, held_between, running_sums, scale_of, whole
from medn.partition.graph import LayerGraph, Link
from medn.partition.search import Memory, MemoryShareProblem, StageProblem, best_order

MAX_REORDERED = 7
"""Devices whose every order is tried; seven have 5,040."""


@dataclass(frozen=True)
class Stage:
    """The layers from `start` up to `stop`, without it, on one device."""

    device: int
    """Which of the devices that were given."""
    start: int
    stop: int
    compute_s: float
    transfer_s: float
    """Of sending on what later stages read. The last stage sends nothing."""
    memory_bytes: float
    """Its parameters, and the peak of its tensors, for as many batches as are in flight."""

    @property
    def total_s(self) -> float:
        return self.compute_s + self.transfer_s


@dataclass(frozen=True)
class Pipeline:
    """All stages of a pipeline in order."""

    stages: tuple[Stage, ...]

    @property
    def slowest_s(self) -> float:
        """A full pipeline finishes one batch in so many seconds."""
        return max(stage.total_s for stage in self.stages)

    @property
    def total_s(self) -> float:
        """How long one batch takes through all stages."""
        return sum(stage.total_s for stage in self.stages)


def pipeline_stages(
    graph: LayerGraph,
    seconds: Array,
    link: Link,
    *,
    memory_limits: Sequence[float] | None = None,
    in_flight: int | Sequence[int] = 1,
    cuts: Collection[int] | None = None,
    any_order: bool = False,
) -> Pipeline:
    """As many stages as `seconds` has rows: the seconds of each layer on each device, in the order of the pipeline.

    The slowest stage, with what it sends on, is as fast as possible; beside it the others are balanced in turn.
    `memory_limits` are the bytes of each device. A stage holds its parameters, and the tensors of as many batches as
    are `in_flight` in it: one number for all stages, or one for each in the order of the pipeline. `cuts` are the
    layers with which a stage may begin, by default all. With `any_order` the devices are put in the best order.

    >>> graph = LayerGraph(("a", "b", "c"), ())
    >>> found = pipeline_stages(graph, np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), Link(bytes_per_s=1e9))
    >>> [(stage.start, stage.stop) for stage in found.stages], found.slowest_s
    ([(0, 2), (2, 3)], 2.0)
    """
    inputs = _checked(graph, seconds, link, memory_limits, in_flight, cuts)
    count = len(inputs.seconds)
    if any_order and count > MAX_REORDERED:
        raise UsageError(f"any_order: for at most {MAX_REORDERED} devices (got {count})")
    order, solution = best_order(inputs.problem(), any_order)
    if solution is None:
        raise UsageError(_too_little_memory(inputs, any_order))
    # Layers that cannot be part of the solution, such as on a device that takes years for them, must not cost
    # the sums of the others their precision. A first solution says which these are.
    slowest_s = max(stage.total_s for stage in _stages(inputs, solution.stops, order))
    if inputs.seconds.max() > 2 * slowest_s > 0:
        inputs = replace(inputs, seconds=np.minimum(inputs.seconds, 2 * slowest_s))
        order, solution = best_order(inputs.problem(), any_order)
        assert solution is not None
    stops = inputs.problem().in_order(order).balanced(solution.stops)
    return Pipeline(tuple(_stages(inputs, stops, order)))


@dataclass(frozen=True, eq=False)
class StageInputs:
    """The inputs of `pipeline_stages`, checked."""

    seconds: Array
    sent_s: Array
    memory: Memory
    limits: Whole
    scale: int
    """How many times the bytes `memory` and `limits` are, so that they are whole."""
    may_end: NDArray[np.bool_]

    def problem(self) -> StageProblem:
        return StageProblem(_until(self.seconds), self.sent_s, self.memory, self.limits, self.may_end)


def _checked(
    graph: LayerGraph,
    seconds: Array,
    link: Link,
    memory_limits: Sequence[float] | None,
    in_flight: int | Sequence[int],
    cuts: Collection[int] | None,
) -> StageInputs:
    layers = len(graph)
    table = as_numbers(seconds)
    if table is None or table.ndim != 2 or table.shape[1] != layers or not (np.isfinite(table) & (table >= 0)).all():
        raise UsageError(f"seconds: must be numbers from 0 on, a row of {layers} for each device")
    if not math.isfinite(sum(table.ravel().tolist())):
        raise UsageError("seconds: together too large to be counted")
    count = len(table)
    limits = np.full(count, math.inf) if memory_limits is None else as_numbers(memory_limits)
    if limits is None or limits.shape != (count,) or not (limits > 0).all():
        raise UsageError(f"memory_limits: must be {count} numbers above 0, one for each device")
    batches = (in_flight,) * count if isinstance(in_flight, (int, float)) else tuple(in_flight)
    if len(batches) != count or not all(isinstance(number, (int, np.integer)) and number >= 1 for number in batches):
        raise UsageError(f"in_flight: must be whole numbers from 1 on, one for all stages or {count} (got {in_flight})")
    may_end = _may_end(graph, cuts)
    cuts_allowed = np.count_nonzero(may_end)
    if not 1 <= count <= cuts_allowed + 1:
        raise UsageError(
            f"seconds: with {cuts_allowed} places to cut there can be 1 to {cuts_allowed + 1} stages (got {count})"
        )
    crossing = graph.crossing_bytes()
    crossing[-1] = 0
    with np.errstate(over="ignore"):
        sent_s = np.where(crossing > 0, link.latency_s + crossing / link.bytes_per_s, 0.0)
    if not np.isfinite(sent_s[may_end]).all():
        raise UsageError("link: it is too slow to be counted for what crosses")
    memory, scale = _memory(graph, tuple(int(number) for number in batches))
    # No limit is a limit that nothing reaches.
    most = int(memory.until[-1]) + max(memory.in_flight) * int(memory.alive.max()) + 1
    bounds = [most if math.isinf(limit) else min(int(whole([limit], scale)[0]), most) for limit in limits.tolist()]
    return StageInputs(table, sent_s, memory, np.array(bounds, dtype=memory.until.dtype), scale, may_end)


def _may_end(graph: LayerGraph, cuts: Collection[int] | None) -> NDArray[np.bool_]:
    """Where a stage may end that is not the last one: where it is allowed, and not inside of a loop."""
    layers = len(graph)
    for cut in cuts or ():
        if not isinstance(cut, (int, np.integer)) or not 0 <= cut < layers:
            raise UsageError(f"cuts: must be layers from 0 to {layers - 1} (got {cut!r})")
    may_end = np.zeros(layers + 1, dtype=np.bool_)
    may_end[1:layers] = True if cuts is None else [cut in cuts for cut in range(1, layers)]
    for tensor in graph.tensors:
        if tensor.times > 1:
            may_end[tensor.source + 1 : max(tensor.readers, default=tensor.source) + 1] = False
    return may_end


def _memory(graph: LayerGraph, in_flight: tuple[int, ...]) -> tuple[Memory, int]:
    """The memory of stages, and the scale that makes its bytes whole. A tensor is alive from the layer that produces it
    to the last that reads it; what passes through a stage is alive all along."""
    sizes = [tensor.size_bytes for tensor in graph.tensors]
    parameters = graph.parameter_bytes or (0,) * len(graph)
    scale = scale_of([*sizes, *parameters])
    spans = [(max(tensor.source, 0), min(graph.last_use(tensor) + 1, len(graph))) for tensor in graph.tensors]
    alive = held_between(whole(sizes, scale), spans, len(graph))
    until = running_sums(whole(parameters, scale))
    if int(until[-1]) + max(in_flight) * int(alive.max()) >= 2**62 or object in (alive.dtype, until.dtype):
        alive, until = alive.astype(object), until.astype(object)
    return Memory(until, alive, in_flight), scale


def _until(values: Array) -> Array:
    """Sums of all values before each index.

    >>> _until(np.array([1.0, 2.0, 4.0]))
    array([0., 1., 3., 7.])
    """
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)


def _too_little_memory(inputs: StageInputs, any_order: bool) -> str:
    """An error message that says how much would do: the same search by the shares that stages take of their memory."""
    count = len(inputs.seconds)
    limits = np.maximum(inputs.limits, 1)
    shares = MemoryShareProblem(_until(inputs.seconds), inputs.sent_s, inputs.memory, limits, inputs.may_end)
    order, solution = best_order(shares, any_order)
    assert solution is not None
    needed = [
        int(inputs.memory.of(stage, np.array([start]), np.array([stop]))[0])
        for stage, (start, stop) in enumerate(zip((0, *solution.stops), solution.stops, strict=False))
    ]
    least = [int(limit) for limit in shares.limits]
    factor = max(Fraction(needed_bytes, least[device]) for needed_bytes, device in zip(needed, order, strict=True))
    enough = [f"{math.ceil(factor * limit / inputs.scale):,}" for limit in least]
    return (
        f"memory_limits: too low for {count} stages; at least {float(factor):.4g} times as much is needed "
        f"({', '.join(enough)} bytes)"
    )


def _stages(inputs: StageInputs, stops: Sequence[int], order: Sequence[int]) -> Iterator[Stage]:
    for stage, (device, start, stop) in enumerate(zip(order, (0, *stops), stops, strict=False)):
        yield Stage(
            device,
            start,
            stop,
            compute_s=math.fsum(inputs.seconds[device, start:stop]),
            transfer_s=float(inputs.sent_s[stop]),
            memory_bytes=int(inputs.memory.of(stage, np.array([start]), np.array([stop]))[0]) / inputs.scale,
        )
