"""Points that two runs both measured: how far the runs disagree there, against how well each repeats by itself."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from medn.core.statistic import Target, noise_floors
from medn.core.values import Measurement
from medn.merging.source_run import SourceRun, VisitKey, visit_key

BEYOND = 2.0
"""Runs disagree where their points differ by more than so many times the noise of either."""

Group = tuple[str, str, bool]
"""Device, kind, and whether the device was loaded."""


@dataclass(frozen=True)
class Overlap:
    """The points of one kind on one device that two runs have in common."""

    device: str
    kind: str
    loaded: bool
    runs: tuple[str, str]
    points: int
    """Measured in both, by visits of their own."""
    difference: float
    """The mean over points of how far the two latencies are apart, relative to their mean."""
    ratio: float
    """The median over points of the second latency over the first."""
    noise: float | None
    """The noise of the noisier of the two; None where no point has two visits."""

    @property
    def beyond_noise(self) -> bool:
        return self.noise is not None and self.difference > BEYOND * self.noise


def shared_visits(runs: Sequence[SourceRun]) -> Counter[VisitKey]:
    """Visits that stand in more than one of the runs, as often as they stand in the second most."""
    counts = [Counter(_keys(run)) for run in runs]
    return _total(first & second for first, second in itertools.combinations(counts, 2))


def _total(found: Iterator[Counter[VisitKey]]) -> Counter[VisitKey]:
    total: Counter[VisitKey] = Counter()
    for each in found:
        total |= each
    return total


def _keys(run: SourceRun) -> Iterator[VisitKey]:
    for measurement in run.measurements:
        for visit in measurement.visits:
            yield visit_key(measurement.point.key, visit, run.environments)


def overlaps(runs: Sequence[SourceRun], target: Target) -> list[Overlap]:
    """Every two runs compared, kind by kind. Visits that both hold say nothing of how they differ."""
    shared = shared_visits(runs)
    own = [{each.point.key: each for each in _own_measurements(run, shared)} for run in runs]
    floors = [noise_floors(measurements.values(), target) for measurements in own]
    found = []
    for first, second in itertools.combinations(range(len(runs)), 2):
        names = (runs[first].name, runs[second].name)
        for group, pairs in _common(own[first], own[second], target).items():
            noise = [floor[group].mean for floor in (floors[first], floors[second]) if group in floor]
            found.append(_overlap(group, names, pairs, max(noise, default=None)))
    return found


def _own_measurements(run: SourceRun, shared: Counter[VisitKey]) -> Iterator[Measurement]:
    for measurement in run.measurements:
        key = measurement.point.key
        visits = [visit for visit in measurement.visits if visit_key(key, visit, run.environments) not in shared]
        kept = replace(measurement, visits=tuple(visits))
        if kept.good_visits:
            yield kept


def _common(
    first: Mapping[str, Measurement], second: Mapping[str, Measurement], target: Target
) -> dict[Group, list[tuple[float, float]]]:
    """The latencies of both runs at the points that both have."""
    found: dict[Group, list[tuple[float, float]]] = {}
    for key in sorted(first.keys() & second.keys()):
        point = first[key].point
        group = (point.device, point.layer.kind, point.condition.utilization > 0)
        found.setdefault(group, []).append((target.latency_s(first[key]), target.latency_s(second[key])))
    return dict(sorted(found.items()))


def _overlap(group: Group, runs: tuple[str, str], pairs: Sequence[tuple[float, float]], noise: float | None) -> Overlap:
    differences = [2 * abs(after - before) / (after + before) for before, after in pairs]
    ratio = math.exp(statistics.median(math.log(after / before) for before, after in pairs))
    return Overlap(*group, runs, len(pairs), statistics.fmean(differences), ratio, noise)
