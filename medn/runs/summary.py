"""What a run holds, in the numbers one wants to see first: points, latencies, noise, drift, failures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medn.core.calm import calm_visits
from medn.core.errors import NothingMeasured
from medn.core.statistic import NoiseFloor, Target, noise_floors, split_half_difference
from medn.core.store import Store
from medn.core.values import Measurement
from medn.runs.measured import read_measured

DRIFT_ABOVE = 1.3
"""A reference kernel slower than this times its usual time marks a visit made while the machine was disturbed."""

UNSTABLE_ABOVE = 0.05
"""The difference between halves that makes a point unstable, where no config says otherwise."""


@dataclass(frozen=True)
class KindSummary:
    """One line of the summary: a kind on a device, idle or loaded."""

    device: str
    kind: str
    loaded: bool
    points: int
    latency_low_s: float
    latency_median_s: float
    latency_high_s: float
    noise: NoiseFloor | None
    unstable: int
    never_calm: int | None
    """Points with no calm visit, of those of which that is known; None where it is known of none."""
    output_error: float | None
    """The largest difference to torch's outputs among these points; None where torch itself was timed."""


@dataclass(frozen=True)
class RunSummary:
    points: int
    visits: int
    samples: int
    statuses: dict[str, int]
    target: Target
    repeatability: dict[str, NoiseFloor]
    """How well each candidate for the idle target repeats."""
    idle_noise: NoiseFloor | None
    """Over all points at utilisation 0."""
    kinds: tuple[KindSummary, ...]
    drifted_visits: int
    calm_visits: int | None
    """Visits that nothing slowed; None where that is known of none."""
    disturbed_samples: float
    """The share of samples that were pre-empted, those that count by processor time among them."""
    processor_time_visits: int
    """Visits that were pre-empted throughout and count by processor time."""
    failures: tuple[tuple[str, int], ...]
    """The reasons of failed points, the most frequent first."""

    def check_measured(self) -> None:
        """Refuse a run of which nothing could be measured."""
        if not self.visits:
            reason, count = self.failures[0]
            raise NothingMeasured(f"none of {self.points} points could be measured; {count} of them: {reason}")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "target": {"idle": str(self.target.idle), "loaded": str(self.target.loaded)}}


def summarise(store: Store) -> RunSummary:
    """Read the whole run."""
    measurements, chosen = read_measured(store)
    target = chosen.target
    if not measurements:
        raise NothingMeasured(f"{store.path.parent} holds no measurements yet. Make them with: medn sweep CONFIG")
    unstable_above = (store.read_note("config") or {}).get("unstable_above", UNSTABLE_ABOVE)
    good = [measurement for measurement in measurements if measurement.good_visits]
    idle = [measurement for measurement in good if measurement.point.condition.utilization == 0]
    differences = [split_half_difference(measurement.good_visits, target.idle) for measurement in idle]
    visits = [visit for measurement in good for visit in measurement.good_visits]
    samples = sum(len(visit.samples) for visit in visits)
    disturbed = sum(int(visit.samples.preempted.sum()) for visit in visits)
    reasons = Counter(f"{bad.status}: {bad.reason}" for bad in measurements if bad.status != "ok")
    return RunSummary(
        points=len(measurements),
        visits=len(visits),
        samples=samples,
        statuses=dict(Counter(str(measurement.status) for measurement in measurements)),
        target=target,
        repeatability=dict(chosen.repeatability),
        idle_noise=NoiseFloor.of([difference for difference in differences if difference is not None]),
        kinds=_kind_summaries(good, target, unstable_above),
        drifted_visits=_drifted(good),
        calm_visits=sum(calm) if (calm := [visit.calm for visit in visits if visit.calm is not None]) else None,
        disturbed_samples=disturbed / samples if samples else 0.0,
        processor_time_visits=sum(visit.by_processor_time for visit in visits) if target.idle.processor_time else 0,
        failures=tuple(reasons.most_common()),
    )


def _kind_summaries(good: Sequence[Measurement], target: Target, unstable_above: float) -> tuple[KindSummary, ...]:
    floors = noise_floors(good, target)
    groups: dict[tuple[str, str, bool], list[Measurement]] = {}
    for measurement in good:
        point = measurement.point
        group = (point.device, point.layer.kind, point.condition.utilization > 0)
        groups.setdefault(group, []).append(measurement)
    summaries = []
    for group, members in sorted(groups.items()):
        latencies = [target.latency_s(member) for member in members]
        unstable = [target.split_half_difference(member) or 0.0 for member in members]
        calm = [count for member in members if (count := calm_visits(member)) is not None]
        output_errors = [member.output_error for member in members if member.output_error is not None]
        summaries.append(
            KindSummary(
                *group,
                points=len(members),
                latency_low_s=min(latencies),
                latency_median_s=statistics.median(latencies),
                latency_high_s=max(latencies),
                noise=floors.get(group),
                unstable=sum(difference > unstable_above for difference in unstable),
                never_calm=sum(count == 0 for count in calm) if calm else None,
                output_error=max(output_errors, default=None),
            )
        )
    return tuple(summaries)


def _drifted(good: Sequence[Measurement]) -> int:
    """Idle visits whose reference kernel was much slower than that device's usual one."""
    count = 0
    for device in {measurement.point.device for measurement in good}:
        readings = [
            visit.reference_s
            for measurement in good
            if measurement.point.device == device and measurement.point.condition.utilization == 0
            for visit in measurement.good_visits
            if visit.reference_s is not None
        ]
        usual = statistics.median(readings) if readings else 0.0
        count += sum(reading > DRIFT_ABOVE * usual for reading in readings)
    return count
