"""The search for pipeline stages: the slowest as fast as possible, and each within the memory of its device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.partition.exact_sums import RangeMaximum, Whole


class StageEnds(NamedTuple):
    """Where the stages end, and the seconds of the slowest."""

    stops: tuple[int, ...]
    slowest_s: float


@dataclass(frozen=True, eq=False)
class Memory:
    """The memory of stages, in whole numbers: parameters, and for each batch in flight the peak of its live tensors."""

    until: Whole
    """The parameters of all layers before each end."""
    alive: Whole
    """Live tensors while each layer runs."""
    in_flight: tuple[int, ...]
    """How many batches each stage holds at once."""

    @cached_property
    def _most_alive(self) -> RangeMaximum:
        return RangeMaximum(self.alive)

    def of(self, stage: int, start: NDArray[np.int_], stop: NDArray[np.int_]) -> Whole:
        held = self.in_flight[stage] * self._most_alive.between(start, stop)
        return np.asarray(self.until[stop] - self.until[start] + held)

    def part(self, stages: slice, start: int, stop: int) -> Memory:
        return Memory(self.until[start : stop + 1], self.alive[start:stop], self.in_flight[stages])


@dataclass(frozen=True, eq=False)
class StageProblem:
    """Stages to be found for devices in a given order. Arrays over ends of stages have one entry more than layers."""

    until_s: Array
    """For each device the seconds of all layers before each end."""
    sent_s: Array
    """Seconds of the transfer at each end; nothing at the end of the model."""
    memory: Memory
    limits: Whole
    """The memory of each device."""
    may_end: NDArray[np.bool_]
    """Where a stage may end that is not the last one."""

    def in_order(self, order: Sequence[int]) -> Self:
        devices = list(order)
        return replace(self, until_s=self.until_s[devices], limits=self.limits[devices])

    def costs(self, stage: int, start: NDArray[np.int_], stop: NDArray[np.int_]) -> Array:
        """The seconds of a stage; no shorter stage takes longer."""
        return np.asarray(self.until_s[stage, stop] - self.until_s[stage, start] + self.sent_s[stop])

    def fits(self, stage: int, start: NDArray[np.int_], stop: NDArray[np.int_]) -> NDArray[np.bool_]:
        """Whether a stage is within its memory; every shorter one is too."""
        return np.asarray(self.memory.of(stage, start, stop) <= self.limits[stage], dtype=np.bool_)

    def best(self, below_s: float = math.inf) -> StageEnds | None:
        """The stages whose slowest is fastest, if it is faster than `below_s`.

        Exact: a bound that cannot be kept is raised to the least seconds of a stage it had forbidden, one that can
        is lowered to what was found, and in the end both are the same.
        """
        best, least_s = self._within(math.nextafter(below_s, 0.0))
        low_s = 0.0
        while best is not None and low_s < best.slowest_s:
            middle_s = (low_s + best.slowest_s) / 2
            stages, least_s = self._within(middle_s if middle_s < best.slowest_s else low_s)
            if stages is None:
                low_s = least_s
            else:
                best = stages
        return best

    def balanced(self, stops: tuple[int, ...]) -> tuple[int, ...]:
        """Stages with the same slowest one in its place, those before it and those after it as fast as possible too.

        They decide nothing as long as the seconds are true; where they are predictions, it is good to have room.
        """
        if not stops:
            return ()
        starts = (0, *stops[:-1])
        costs = [
            self.costs(stage, np.array([start]), np.array([stop]))[0]
            for stage, (start, stop) in enumerate(zip(starts, stops, strict=True))
        ]
        slowest = int(np.argmax(costs))
        before = self._part(slice(slowest), 0, starts[slowest])
        after = self._part(slice(slowest + 1, None), stops[slowest], stops[-1])
        return (*before, stops[slowest], *after)

    def _part(self, stages: slice, start: int, stop: int) -> tuple[int, ...]:
        """The ends of balanced stages for some of the layers on some of the devices."""
        if start == stop:
            return ()
        ends = slice(start, stop + 1)
        may_end = self.may_end[ends].copy()
        may_end[-1] = False
        part = StageProblem(
            self.until_s[stages, ends],
            self.sent_s[ends],
            self.memory.part(stages, start, stop),
            self.limits[stages],
            may_end,
        )
        best = part.best()
        return tuple(start + end for end in part.balanced(best.stops)) if best else ()

    def _within(self, bound_s: float) -> tuple[StageEnds | None, float]:
        """Stages of at most so many seconds, if there are any, and the seconds of the fastest stage that was too slow.

        The shorter a stage is, the faster it is and the less memory it needs. So for each end only the last possible
        start before it matters.
        """
        ends = np.arange(len(self.sent_s))
        possible = ends == 0
        least_s = math.inf
        starts: list[NDArray[np.int_]] = []
        stage_seconds: list[Array] = []
        for stage in range(len(self.until_s)):
            start = np.maximum.accumulate(np.where(possible, ends, -1))
            start[1:] = start[:-1]
            start[0] = -1
            begun = np.maximum(start, 0)
            seconds = self.costs(stage, begun, ends)
            fits = (start >= 0) & self.fits(stage, begun, ends)
            fits &= self.may_end if stage < len(self.until_s) - 1 else ends == ends[-1]
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
        return StageEnds(tuple(reversed(stops)), slowest_s), least_s


class MemoryShareProblem(StageProblem):
    """The same stages, judged by the share of its device's memory that each would take."""

    def costs(self, stage: int, start: NDArray[np.int_], stop: NDArray[np.int_]) -> Array:
        return np.asarray(self.memory.of(stage, start, stop) / self.limits[stage], dtype=float)

    def fits(self, stage: int, start: NDArray[np.int_], stop: NDArray[np.int_]) -> NDArray[np.bool_]:
        return np.ones(len(start), dtype=np.bool_)


def best_order(problem: StageProblem, any_order: bool) -> tuple[tuple[int, ...], StageEnds | None]:
    """The best order of the devices, and their stages."""
    chosen: tuple[int, ...] = tuple(range(len(problem.until_s)))
    best: StageEnds | None = None
    for order in _orders(problem) if any_order else [chosen]:
        stages = problem.in_order(order).best(best.slowest_s if best else math.inf)
        if stages:
            best, chosen = stages, order
    return chosen, best


def _orders(problem: StageProblem) -> Iterator[tuple[int, ...]]:
    """Every order of the devices; devices that are alike are not exchanged."""
    devices = [(row.tobytes(), limit) for row, limit in zip(problem.until_s, problem.limits.tolist(), strict=True)]
    first_alike = [devices.index(device) for device in devices]
    seen = set()
    for order in itertools.permutations(range(len(devices))):
        pattern = tuple(first_alike[device] for device in order)
        if pattern not in seen:
            seen.add(pattern)
            yield order
