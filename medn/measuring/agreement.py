"""Whether machines that are to be equal are: what they say of the same few points, against how much visits vary."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medn.core.values import Measurement

COMPARED_POINTS = 6
"""Points of each device that are visited on all of its machines, in turn."""
LEAST_POINTS = 4
LEAST_VISITS = 2
"""On each machine, before it is judged by a point."""
ALLOWED = 0.05
"""Machines that differ by less are equal, however well that is known."""
ERRORS = 3.0
"""How many standard errors a difference must be beyond what visits vary by."""
QUANTILE = 0.1


@dataclass(frozen=True)
class Difference:
    """How much longer a machine takes than the first one, and how well that is known, as shares."""

    longer: float
    error: float

    @property
    def is_beyond_noise(self) -> bool:
        return abs(self.longer) > max(ALLOWED, ERRORS * self.error)


def difference(measurements: Iterable[Measurement], first: str, other: str) -> Difference | None:
    """Of the environment of one machine from that of the first; None where too few points have visits on both.

    The spread over points tells how much visits vary, as it would be none between equal machines without noise.
    """
    ratios = []
    for measurement in measurements:
        ours, theirs = (_latencies(measurement, environment) for environment in (first, other))
        if min(len(ours), len(theirs)) >= LEAST_VISITS:
            ratios.append(math.log(min(theirs) / min(ours)))
    if len(ratios) < LEAST_POINTS:
        return None
    middle = statistics.median(ratios)
    spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in ratios)
    return Difference(math.expm1(middle), 1.2533 * spread / math.sqrt(len(ratios)))


def _latencies(measurement: Measurement, environment: str) -> list[float]:
    return [
        float(samples[int(QUANTILE * len(samples))])
        for visit in measurement.good_visits
        if visit.environment_id == environment and len(samples := visit.samples.ordered_undisturbed)
    ]


def name_apart(device: str, commands: Sequence[str], over: str) -> str:
    """The device that rows of a machine are kept as which is not equal to the first.

    >>> name_apart("orin", ["ssh a", "ssh b"], "ssh b")
    'orin-machine2'
    """
    return f"{device}-machine{list(commands).index(over) + 1}"


def sentence(over: str, first: str, found: Difference, names: Mapping[str, str]) -> str:
    kept = " and ".join(names.values())
    more = "longer" if found.longer > 0 else "less"
    return (
        f"{over} takes {abs(found.longer):.0%} {more} than {first} for the same layers (known to {found.error:.1%}): "
        f"its visits are kept apart, as {kept}"
    )
