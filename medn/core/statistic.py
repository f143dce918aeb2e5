"""From raw samples to one number, and how well that number repeats.

A statistic is a definition, kept beside the data and never baked into it: a quantile of the samples within each visit,
then a quantile across visits. Which one becomes the target of a run is chosen by its split-half repeatability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from medn.core.values import Measurement, Visit


def ordered_quantile(ordered: Sequence[float] | NDArray[np.float64], fraction: float) -> float:
    """A quantile of values that are sorted already, interpolated; many times faster than sorting again.

    >>> ordered_quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


@dataclass(frozen=True)
class Statistic:
    """The `across` quantile over visits of the `within` quantile of each visit's samples."""

    within: float
    across: float
    undisturbed: bool
    """Whether samples that were pre-empted are left out."""
    processor_time: bool = False
    """Whether visits with no others count by processor time, where that tells as much (`medn.core.preempted`)."""

    def visit_latency_s(self, visit: Visit) -> float:
        samples = visit.samples
        if self.processor_time and visit.by_processor_time:
            return ordered_quantile(samples.ordered_processor, self.within)
        return ordered_quantile(samples.ordered_undisturbed if self.undisturbed else samples.ordered, self.within)

    def latency_s(self, visits: Sequence[Visit]) -> float:
        return ordered_quantile(sorted(self.visit_latency_s(visit) for visit in visits), self.across)

    def __str__(self) -> str:
        names = {0.0: "minimum", 0.5: "median"}
        within, across = (names.get(part, f"p{part * 100:g}") for part in (self.within, self.across))
        told = f"{across} over visits of the {within} within a visit"
        return f"{told}, pre-empted visits by processor time" if self.processor_time else told

    @property
    def definition(self) -> dict[str, float | bool]:
        return asdict(self)


IDLE_STATISTICS = tuple(
    Statistic(within, across, undisturbed=True) for within in (0.0, 0.1, 0.25, 0.5) for across in (0.0, 0.25, 0.5)
)
"""Candidates for the target while the device is otherwise idle: whatever adds time there is a disturbance."""

LOADED_STATISTIC = Statistic(within=0.5, across=0.5, undisturbed=False)
"""The target under load, where waiting for others is part of the latency."""

DEFAULT_IDLE_STATISTIC = Statistic(within=0.1, across=0.0, undisturbed=True)
"""The lowest visit's 10th percentile: the target until there is enough data to choose."""


@dataclass(frozen=True)
class NoiseFloor:
    """How far two halves of the same visits disagree, relative to their mean."""

    points: int
    median: float
    mean: float
    """What is called noise wherever one number stands for it: like a mean error, it counts every point, so that the two
    can be compared."""

    @classmethod
    def of(cls, differences: Sequence[float]) -> NoiseFloor | None:
        if not differences:
            return None
        return cls(len(differences), float(np.median(differences)), float(np.mean(differences)))


@dataclass(frozen=True)
class Target:
    """Which statistic stands for the latency of a point: one for the idle device, one under load."""

    idle: Statistic = DEFAULT_IDLE_STATISTIC
    loaded: Statistic = LOADED_STATISTIC

    def statistic(self, measurement: Measurement) -> Statistic:
        return self.loaded if measurement.point.condition.utilization > 0 else self.idle

    def latency_s(self, measurement: Measurement) -> float:
        return self.statistic(measurement).latency_s(measurement.good_visits)

    def split_half_difference(self, measurement: Measurement) -> float | None:
        return split_half_difference(measurement.good_visits, self.statistic(measurement))

    @property
    def definition(self) -> dict[str, object]:
        return {"idle": self.idle.definition, "loaded": self.loaded.definition}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Mapping[str, float]]) -> Target:
        idle, loaded = (
            Statistic(
                float(part["within"]),
                float(part["across"]),
                bool(part["undisturbed"]),
                bool(part.get("processor_time", False)),  # what was recorded before counts by wall time alone
            )
            for part in (definition["idle"], definition["loaded"])
        )
        return cls(idle, loaded)


def split_half_difference(visits: Sequence[Visit], statistic: Statistic) -> float | None:
    """The statistic of every other visit against that of the rest; None with fewer than two visits.

    Both halves spread over the whole run, so a disturbance that outlasts a visit shows up here.
    """
    if len(visits) < 2:
        return None
    first, second = statistic.latency_s(visits[0::2]), statistic.latency_s(visits[1::2])
    return abs(first - second) / ((first + second) / 2)


def choose_target(measurements: Sequence[Measurement]) -> tuple[Target, dict[str, NoiseFloor]]:
    """The target whose idle statistic repeats best, and how every candidate repeats.

    Median and mean count alike: the one alone would forgive outliers, the other alone would be ruled by them. Processor
    time is in the definition where any visit counts by it.
    """
    idle = [measurement for measurement in measurements if measurement.point.condition.utilization == 0]
    processor_time = any(visit.by_processor_time for measurement in idle for visit in measurement.good_visits)
    floors: dict[Statistic, NoiseFloor] = {}
    for statistic in (replace(each, processor_time=processor_time) for each in IDLE_STATISTICS):
        differences = [split_half_difference(measurement.good_visits, statistic) for measurement in idle]
        floor = NoiseFloor.of([difference for difference in differences if difference is not None])
        if floor is not None:
            floors[statistic] = floor
    if not floors:
        return Target(idle=replace(DEFAULT_IDLE_STATISTIC, processor_time=processor_time)), {}
    best = min(floors, key=lambda statistic: floors[statistic].median + floors[statistic].mean)
    return Target(idle=best), {str(statistic): floor for statistic, floor in floors.items()}


def noise_floors(measurements: Iterable[Measurement], target: Target) -> dict[tuple[str, str, bool], NoiseFloor]:
    """Split-half repeatability for each device, kind and whether the device was loaded."""
    differences: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for measurement in measurements:
        difference = target.split_half_difference(measurement)
        if difference is not None:
            point = measurement.point
            differences[point.device, point.layer.kind, point.condition.utilization > 0].append(difference)
    floors = {group: NoiseFloor.of(found) for group, found in sorted(differences.items())}
    return {group: floor for group, floor in floors.items() if floor is not None}


def tail_latency_s(measurement: Measurement, quantile: float) -> float | None:
    """An upper quantile over every sample of a point, disturbed ones included; None where they are too few to tell."""
    pooled = _pooled(measurement)
    return ordered_quantile(pooled, quantile) if len(pooled) >= round(1 / (1 - quantile)) else None


@lru_cache(maxsize=1)  # one quantile of a point is asked for after the other
def _pooled(measurement: Measurement) -> NDArray[np.float64]:
    return np.sort(np.concatenate([visit.samples.wall_s for visit in measurement.good_visits] or [np.empty(0)]))
