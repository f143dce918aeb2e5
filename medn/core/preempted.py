"""Which visits count by processor time: those of which every sample was pre-empted, as far as that time tells.

Wall times of such a visit hold how long it waited for others, processor times do not. They are about the same where a
layer computes in the thread that calls it, and only samples that nobody interrupted show whether it does. As whether a
visit was calm, this follows from the whole run and is worked out when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from medn.core.calm import Place, placed
from medn.core.values import Measurement, Samples, Visit

ABOUT = 0.1
"""How far processor time is from wall time at most, relative to it, where it tells as much."""


def tells_wall_time(groups: Iterable[Iterable[Samples]]) -> bool:
    """Whether processor time is about wall time over all that nobody interrupted; not where there is nothing such.

    Neither may it be much less in any group by itself: a runtime may compute some layers in threads of its own.
    """
    seconds = [_undisturbed_seconds(group) for group in groups]
    wall_s, cpu_s = np.sum(seconds, axis=0) if seconds else (0.0, 0.0)
    no_less = all(processor >= (1 - ABOUT) * wall for wall, processor in seconds)
    return bool(wall_s > 0 and no_less and cpu_s <= (1 + ABOUT) * wall_s)


def with_processor_time(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The same measurements, each visit told whether it counts by processor time."""
    known: dict[Place, _Known] = {}
    for measurement in filter(_is_idle, measurements):
        for place, visit in placed([measurement]):
            known.setdefault(place, _Known()).add(measurement.point.layer.kind, visit)
    telling = {place for place, facts in known.items() if facts.on_host and tells_wall_time(facts.by_kind.values())}
    return [_marked(each, telling) if telling and _is_idle(each) else each for each in measurements]


@dataclass
class _Known:
    """What idle visits in one place show."""

    on_host: bool = False
    """Whether any timed the reference kernels: a host that waits for a GPU may spend processor time on that."""
    by_kind: dict[str, list[Samples]] = field(default_factory=dict)

    def add(self, kind: str, visit: Visit) -> None:
        self.on_host |= bool(visit.reference_runs)
        self.by_kind.setdefault(kind, []).append(visit.samples)


def _is_idle(measurement: Measurement) -> bool:
    """Under load, waiting for others is part of the latency."""
    return measurement.point.condition.utilization == 0


def _undisturbed_seconds(samples: Iterable[Samples]) -> tuple[float, float]:
    """Wall and processor time of all that nobody interrupted: to long samples, reading clocks adds little."""
    seconds = np.zeros(2)
    for each in samples:
        kept = ~each.preempted
        seconds += each.calls_per_sample * np.array([each.wall_s[kept].sum(), each.cpu_s[kept].sum()])
    return float(seconds[0]), float(seconds[1])


def _marked(measurement: Measurement, telling: set[Place]) -> Measurement:
    visits = [
        replace(visit, by_processor_time=True) if place in telling and visit.samples.all_preempted else visit
        for place, visit in placed([measurement])
    ]
    return replace(measurement, visits=tuple(visits))
