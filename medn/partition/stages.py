"""A model in a pipeline: consecutive layers in stages, one stage per device, the slowest stage as fast as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.table import Array
from medn.partition.graph import Graph, Link

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


class Found(NamedTuple):
    """Where the stages end, and the seconds of the slowest."""

    stops: tuple[int, ...]
    slowest_s: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Stages to be found for devices in a given order. Arrays over ends of stages have one entry more than layers."""

    until_s: Array
    """For each device the seconds of all layers before each end."""
    sent_s: Array
    """What it takes to send on what crosses each end; nothing at the end of the model."""
    until_bytes: Array
    limits: Array
    """The bytes each device has."""
    may_end: NDArray[np.bool_]
    """Where a stage may end that is not the last one."""

    def in_order(self, order: Sequence[int]) -> Problem:
        devices = list(order)
        return Problem(self.until_s[devices], self.sent_s, self.until_bytes, self.limits[devices], self.may_end)

    def best(self, below_s: float = math.inf) -> Found | None:
        """The stages whose slowest is fastest, if it is faster than `below_s`.

        Exact: a bound that cannot be kept is raised to the least seconds of a stage it had forbidden, one that can
        is lowered to what was found, and in the end both are the same.
        """
        best, least_s = self._within(math.nextafter(below_s, 0.0))
        low_s = 0.0
        while best is not None and low_s < best.slowest_s:
            middle_s = (low_s + best.slowest_s) / 2
            found, least_s = self._within(middle_s if middle_s < best.slowest_s else low_s)
            if found is None:
                low_s = least_s
            else:
                best = found
        return best

    def balanced(self, stops: tuple[int, ...]) -> tuple[int, ...]:
        """Stages with the same slowest one in its place, those before it and those after it as fast as possible too.

        They decide nothing as long as the seconds are true; where they are predictions, it is good to have room.
        """
        if not stops:
            return ()
        starts = (0, *stops[:-1])
        devices = np.arange(len(stops))
        seconds = self.until_s[devices, stops] - self.until_s[devices, starts] + self.sent_s[list(stops)]
        slowest = int(np.argmax(seconds))
        before = self._part(slice(slowest), 0, starts[slowest])
        after = self._part(slice(slowest + 1, None), stops[slowest], stops[-1])
        return (*before, stops[slowest], *after)

    def _part(self, devices: slice, start: int, stop: int) -> tuple[int, ...]:
        """The ends of balanced stages for some of the layers on some of the devices."""
        ends = slice(start, stop + 1)
        may_end = self.may_end[ends].copy()
        may_end[-1] = False
        part = Problem(
            self.until_s[devices, ends], self.sent_s[ends], self.until_bytes[ends], self.limits[devices], may_end
        )
        found = part.best()
        return tuple(start + each for each in part.balanced(found.stops)) if found else ()

    def _within(self, bound_s: float) -> tuple[Found | None, float]:
        """Stages of at most so many seconds, if there are any, and the seconds of the fastest stage that was too slow.

        The shorter a stage is, the faster it is and the less memory it needs. So for each end only the last possible
        start before it matters.
        """
        ends = np.arange(len(self.sent_s))
        possible = ends == 0
        least_s = math.inf
        starts: list[NDArray[np.int_]] = []
        stage_seconds: list[Array] = []
        for device, (until_s, limit) in enumerate(zip(self.until_s, self.limits, strict=True)):
            start = np.maximum.accumulate(np.where(possible, ends, -1))
            start[1:] = start[:-1]
            start[0] = -1
            seconds = until_s - until_s[start] + self.sent_s
            fits = (start >= 0) & (self.until_bytes - self.until_bytes[start] <= limit)
            fits &= self.may_end if device < len(self.until_s) - 1 else ends == ends[-1]
            possible = fits & (seconds <= bound_s)
            least_s = min(least_s, np.min(seconds[fits & ~possible], initial=math.inf))
            starts.append(start)
            stage_seconds.append(seconds)
        if not possible[-1]:
            return None, least_s
        stop, stops, slowest_s = int(ends[-1]), [], 0.0
        for start, seconds in zip(reversed(starts), reversed(stage_seconds), strict=True):
            stops.append(stop)
            slowest_s = max(slowest_s, float(seconds[stop]))
            stop = int(start[stop])
        return Found(tuple(reversed(stops)), slowest_s), least_s


def pipeline_stages(
    graph: Graph,
    seconds: Array,
    link: Link,
    *,
    memory_limits: Sequence[float] | None = None,
    cuts: Collection[int] | None = None,
    any_order: bool = False,
) -> Stages:
    """As many stages as `seconds` has rows: the seconds of each layer on each device, in the order of the pipeline.

    The slowest stage, with what it sends on, is as fast as possible; beside it the others are balanced in turn.
    `memory_limits` are the bytes that the parameters of a stage may take on each device. `cuts` are the layers with
    which a stage may begin, by default all. With `any_order` the devices are put in the best order.

    >>> graph = Graph(("a", "b", "c"), ())
    >>> found = pipeline_stages(graph, np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), Link(bytes_per_s=1e9))
    >>> [(stage.start, stage.stop) for stage in found.stages], found.slowest_s
    ([(0, 2), (2, 3)], 2.0)
    """
    problem = _problem(graph, np.asarray(seconds, dtype=float), link, memory_limits, cuts)
    count = len(problem.until_s)
    if any_order and count > MOST_REORDERED:
        raise UsageError(f"any_order: for at most {MOST_REORDERED} devices (got {count})")
    best: Found | None = None
    best_order: tuple[int, ...] = tuple(range(count))
    for order in _orders(problem) if any_order else [best_order]:
        found = problem.in_order(order).best(best.slowest_s if best else math.inf)
        if found:
            best, best_order = found, order
    if best is None:
        raise UsageError(_too_little_memory(problem, any_order))
    return _stages(problem, problem.in_order(best_order).balanced(best.stops), best_order)


def _problem(
    graph: Graph,
    seconds: Array,
    link: Link,
    memory_limits: Sequence[float] | None,
    cuts: Collection[int] | None,
) -> Problem:
    layers = len(graph)
    if seconds.ndim != 2 or seconds.shape[1] != layers or not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise UsageError(f"seconds: must be numbers from 0 on, a row of {layers} for each device")
    count = len(seconds)
    limits = np.full(count, math.inf) if memory_limits is None else np.asarray(memory_limits, dtype=float)
    if limits.shape != (count,) or not (limits > 0).all():
        raise UsageError(f"memory_limits: must be {count} numbers above 0, one for each device")
    may_end = np.zeros(layers + 1, dtype=np.bool_)
    may_end[[cut for cut in (range(layers) if cuts is None else cuts) if 0 < cut < layers]] = True
    places = np.count_nonzero(may_end)
    if not 1 <= count <= places + 1:
        raise UsageError(f"seconds: with {places} places to cut there can be 1 to {places + 1} stages (got {count})")
    crossing = graph.crossing_bytes()
    crossing[-1] = 0
    return Problem(
        until_s=_until(seconds),
        sent_s=np.where(crossing > 0, link.latency_s + crossing / link.bytes_per_s, 0.0),
        until_bytes=_until(np.array(graph.parameter_bytes or np.zeros(layers))),
        limits=limits,
        may_end=may_end,
    )


def _until(values: Array) -> Array:
    """Sums of all values before each place.

    >>> _until(np.array([1.0, 2.0, 4.0]))
    array([0., 1., 3., 7.])
    """
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)


def _orders(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every order of the devices; devices that are alike are not exchanged."""
    devices = [row.tobytes() for row in np.column_stack([problem.until_s, problem.limits])]
    first_alike = [devices.index(device) for device in devices]
    seen = set()
    for order in itertools.permutations(range(len(devices))):
        pattern = tuple(first_alike[device] for device in order)
        if pattern not in seen:
            seen.add(pattern)
            yield order


def _too_little_memory(problem: Problem, any_order: bool) -> str:
    """The sentence that says how much would do: the same search, with shares of the memory as seconds."""
    count = len(problem.until_s)
    shares = Problem(
        problem.until_bytes / problem.limits[:, None],
        np.zeros_like(problem.sent_s),
        problem.until_bytes,
        np.full(count, math.inf),
        problem.may_end,
    )
    orders = _orders(shares) if any_order else [tuple(range(count))]
    found = [shares.in_order(order).best() for order in orders]
    factor = min(each.slowest_s for each in found if each)
    # Rounding must not make one byte more of a number that is whole.
    needed = [f"{math.ceil(factor * limit * (1 - 1e-12)):,}" for limit in problem.limits[np.isfinite(problem.limits)]]
    return (
        f"memory_limits: too low for {count} stages; at least {factor:.4g} times as much is needed "
        f"({', '.join(needed)} bytes)"
    )


def _stages(problem: Problem, stops: Sequence[int], order: Sequence[int]) -> Stages:
    made = []
    for device, start, stop in zip(order, (0, *stops), stops, strict=False):
        made.append(
            Stage(
                device,
                start,
                stop,
                compute_s=float(problem.until_s[device, stop] - problem.until_s[device, start]),
                transfer_s=float(problem.sent_s[stop]),
                memory_bytes=float(problem.until_bytes[stop] - problem.until_bytes[start]),
            )
        )
    return Stages(tuple(made))
