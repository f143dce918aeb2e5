"""Whether a visit was calm: nothing else slowed it, as far as that can be told.

Between the samples of a visit fixed kernels are timed (`Visit.reference_runs`). A visit is calm where each of them took
about its best time and few samples were pre-empted. What was stored does not change with this rule: it is worked out
when a run is read, and a visit without such times is neither calm nor not, but unknown.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medn.core.values import Measurement, Visit

BEST_QUANTILE = 0.05
"""Of the times that a kernel took at the visits of a run: its best, such that a few lucky visits do not decide."""

WITHIN = 0.05
"""How much longer than its best a kernel takes at most in a calm visit."""

MOST_PREEMPTED = 0.5
"""The share of pre-empted samples that a calm visit has at most: the kernels are too short to be pre-empted often."""

Place = tuple[str, int, str]
"""Where times compare: a device, a number of threads, an environment."""


@dataclass(frozen=True)
class BestTimes:
    """The best time of every kernel in each place."""

    seconds: Mapping[Place, Mapping[str, float]]

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> BestTimes:
        found: dict[Place, dict[str, list[float]]] = {}
        for place, visit in placed(measurements):
            for name, seconds in _times(visit).items():
                found.setdefault(place, {}).setdefault(name, []).append(seconds)
        return cls(
            {
                place: {name: float(np.quantile(times, BEST_QUANTILE)) for name, times in kernels.items()}
                for place, kernels in found.items()
            }
        )

    def calm(self, place: Place, visit: Visit) -> bool | None:
        """None where nothing is known: the visit failed, or nothing was timed beside it."""
        times = _times(visit)
        if not times or not len(visit.samples):
            return None
        best = self.seconds[place]
        is_fast = all(seconds <= (1 + WITHIN) * best[name] for name, seconds in times.items())
        return is_fast and float(np.mean(visit.samples.preempted)) <= MOST_PREEMPTED


def with_calm(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The same measurements, each visit told whether it was calm."""
    best = BestTimes.of(measurements)
    if not best.seconds:
        return list(measurements)
    return [
        replace(each, visits=tuple(replace(visit, calm=best.calm(place, visit)) for place, visit in placed([each])))
        for each in measurements
    ]


def calm_visits(measurement: Measurement) -> int | None:
    """How many visits were calm; None where it is not known of all: an unknown visit may have been."""
    known = [visit.calm for visit in measurement.good_visits if visit.calm is not None]
    return sum(known) if known and len(known) == len(measurement.good_visits) else None


def _times(visit: Visit) -> dict[str, float]:
    """The usual time of each kernel during a visit: a single run may be slow by chance, or fast."""
    return {name: statistics.median(runs) for name, runs in visit.reference_runs.items() if runs}


def placed(measurements: Sequence[Measurement]) -> Iterator[tuple[Place, Visit]]:
    """Every visit, with where it was made."""
    for measurement in measurements:
        point = measurement.point
        for visit in measurement.visits:
            yield (point.device, point.condition.threads, visit.environment_id), visit
