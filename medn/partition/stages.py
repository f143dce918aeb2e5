"""A model in a pipeline: consecutive layers in stages, one stage per device, the slowest stage as fast as possible."""

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
from medn.partition.graph import Graph, Link
from medn.partition.search import Memory, Problem, Shares, best_order

MOST_REORDERED = 7
"""Devices whose every order is tried: 5,040 orders of seven take about as long as one may wait."""


@dataclass(frozen=True)
class Stage:
    """The layers from `start` up to `stop`, without it, on one device."""

    device: int
    """Which of the devices that were given."""
    start: int
    stop: int
    compute_s: float
    transfer_s: float
    """What it takes to send on what later stages read. The last stage sends nothing."""
    memory_bytes: float
    """Its parameters, and what its tensors hold at most, of as many batches as are in flight."""

    @property
    def total_s(self) -> float:
        return self.compute_s + self.transfer_s


@dataclass(frozen=True)
class Stages:
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
    graph: Graph,
    seconds: Array,
    link: Link,
    *,
    memory_limits: Sequence[float] | None = None,
    in_flight: int | Sequence[int] = 1,
    cuts: Collection[int] | None = None,
    any_order: bool = False,
) -> Stages:
    """As many stages as `seconds` has rows: the seconds of each layer on each device, in the order of the pipeline.

    The slowest stage, with what it sends on, is as fast as possible; beside it the others are balanced in turn.
    `memory_limits` are the bytes of each device. A stage holds its parameters, and the tensors of as many batches as
    are `in_flight` in it: one number for all stages, or one for each in the order of the pipeline. `cuts` are the
    layers with which a stage may begin, by default all. With `any_order` the devices are put in the best order.

    >>> graph = Graph(("a", "b", "c"), ())
    >>> found = pipeline_stages(graph, np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), Link(bytes_per_s=1e9))
    >>> [(stage.start, stage.stop) for stage in found.stages], found.slowest_s
    ([(0, 2), (2, 3)], 2.0)
    """
    asked = _checked(graph, seconds, link, memory_limits, in_flight, cuts)
    count = len(asked.seconds)
    if any_order and count > MOST_REORDERED:
        raise UsageError(f"any_order: for at most {MOST_REORDERED} devices (got {count})")
    order, found = best_order(asked.problem(), any_order)
    if found is None:
        raise UsageError(_too_little_memory(asked, any_order))
    # Layers that cannot be part of the answer, such as on a device that takes years for them, must not blur the sums of
    # those that can. A first answer says which these are.
    slowest_s = max(stage.total_s for stage in _stages(asked, found.stops, order))
    if asked.seconds.max() > 2 * slowest_s > 0:
        asked = replace(asked, seconds=np.minimum(asked.seconds, 2 * slowest_s))
        order, found = best_order(asked.problem(), any_order)
        assert found is not None
    stops = asked.problem().in_order(order).balanced(found.stops)
    return Stages(tuple(_stages(asked, stops, order)))


@dataclass(frozen=True, eq=False)
class Asked:
    """What stages are asked for, after it was checked."""

    seconds: Array
    sent_s: Array
    memory: Memory
    limits: Whole
    scale: int
    """How many times the bytes `memory` and `limits` are, so that they are whole."""
    may_end: NDArray[np.bool_]

    def problem(self) -> Problem:
        return Problem(_until(self.seconds), self.sent_s, self.memory, self.limits, self.may_end)


def _checked(
    graph: Graph,
    seconds: Array,
    link: Link,
    memory_limits: Sequence[float] | None,
    in_flight: int | Sequence[int],
    cuts: Collection[int] | None,
) -> Asked:
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
    many = (in_flight,) * count if isinstance(in_flight, (int, float)) else tuple(in_flight)
    if len(many) != count or not all(isinstance(each, (int, np.integer)) and each >= 1 for each in many):
        raise UsageError(f"in_flight: must be whole numbers from 1 on, one for all stages or {count} (got {in_flight})")
    may_end = _may_end(graph, cuts)
    places = np.count_nonzero(may_end)
    if not 1 <= count <= places + 1:
        raise UsageError(f"seconds: with {places} places to cut there can be 1 to {places + 1} stages (got {count})")
    crossing = graph.crossing_bytes()
    crossing[-1] = 0
    with np.errstate(over="ignore"):
        sent_s = np.where(crossing > 0, link.latency_s + crossing / link.bytes_per_s, 0.0)
    if not np.isfinite(sent_s[may_end]).all():
        raise UsageError("link: it is too slow to be counted for what crosses")
    memory, scale = _memory(graph, tuple(int(each) for each in many))
    # What has no limit has one that nothing reaches.
    most = int(memory.until[-1]) + max(memory.in_flight) * int(memory.alive.max()) + 1
    bounds = [most if math.isinf(limit) else min(int(whole([limit], scale)[0]), most) for limit in limits.tolist()]
    return Asked(table, sent_s, memory, np.array(bounds, dtype=memory.until.dtype), scale, may_end)


def _may_end(graph: Graph, cuts: Collection[int] | None) -> NDArray[np.bool_]:
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


def _memory(graph: Graph, in_flight: tuple[int, ...]) -> tuple[Memory, int]:
    """What stages hold, and how many times the bytes it is. A tensor is alive from the layer that makes it to the last
    that reads it; what passes through a stage lives in it all along."""
    sizes = [tensor.size_bytes for tensor in graph.tensors]
    parameters = graph.parameter_bytes or (0,) * len(graph)
    scale = scale_of([*sizes, *parameters])
    spans = [(max(each.source, 0), min(graph.last_use(each) + 1, len(graph))) for each in graph.tensors]
    alive = held_between(whole(sizes, scale), spans, len(graph))
    until = running_sums(whole(parameters, scale))
    if int(until[-1]) + max(in_flight) * int(alive.max()) >= 2**62 or object in (alive.dtype, until.dtype):
        alive, until = alive.astype(object), until.astype(object)
    return Memory(until, alive, in_flight), scale


def _until(values: Array) -> Array:
    """Sums of all values before each place.

    >>> _until(np.array([1.0, 2.0, 4.0]))
    array([0., 1., 3., 7.])
    """
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)


def _too_little_memory(asked: Asked, any_order: bool) -> str:
    """The sentence that says how much would do: the same search by the shares that stages take of their memory."""
    count = len(asked.seconds)
    shares = Shares(_until(asked.seconds), asked.sent_s, asked.memory, np.maximum(asked.limits, 1), asked.may_end)
    order, found = best_order(shares, any_order)
    assert found is not None
    needed = [
        int(asked.memory.of(stage, np.array([start]), np.array([stop]))[0])
        for stage, (start, stop) in enumerate(zip((0, *found.stops), found.stops, strict=False))
    ]
    limits = [int(limit) for limit in shares.limits]
    factor = max(Fraction(each, limits[device]) for each, device in zip(needed, order, strict=True))
    enough = [f"{math.ceil(factor * limit / asked.scale):,}" for limit in limits]
    return (
        f"memory_limits: too low for {count} stages; at least {float(factor):.4g} times as much is needed "
        f"({', '.join(enough)} bytes)"
    )


def _stages(asked: Asked, stops: Sequence[int], order: Sequence[int]) -> Iterator[Stage]:
    for stage, (device, start, stop) in enumerate(zip(order, (0, *stops), stops, strict=False)):
        yield Stage(
            device,
            start,
            stop,
            compute_s=math.fsum(asked.seconds[device, start:stop]),
            transfer_s=float(asked.sent_s[stop]),
            memory_bytes=int(asked.memory.of(stage, np.array([start]), np.array([stop]))[0]) / asked.scale,
        )
