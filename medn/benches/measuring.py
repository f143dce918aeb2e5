"""How fast measuring itself is: a fixed small sweep, and where its time went."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medn.core.errors import NothingMeasured
from medn.core.values import Point, Visit
from medn.layer_generators.sweep import parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder

LONG_LAYER_S = 1e-3
"""Layers above this are long: there, most of a visit should be timed work."""

PLAN = """
name: bench
seed: 1
devices: [DEVICE]
sampler: sobol
budget: {points: 48}
layers:
  conv2d:
    in_channels: {log_range: [16, 128]}
    out_channels: {log_range: [16, 128]}
    in_size: [14, 28, 56]
    share: 2
  linear:
    in_features: {log_range: [64, 2048]}
    out_features: {log_range: [64, 2048]}
    rows: {log_range: [1, 64]}
  max_pool2d: {}
  activation: {}
conditions: {batch_size: [1, 4, 16]}
limits: {flops: 2e9, memory_bytes: 1e8}
measure: {visits: 1000, visit_time: 0.05}
"""
VISITS_PER_POINT = 8
"""What counts as a point when rates are told: the visits a sweep makes by default."""


@dataclass(frozen=True)
class TimedShare:
    """How much of the visits to layers of one size was spent inside the timed layer."""

    visits: int
    visit_s: float
    """Mean wall time of a visit, building and warming up included."""
    timed_share: float


@dataclass(frozen=True)
class MeasureBench:
    device: str
    seconds: float
    visits: int
    visits_per_second: float
    points_per_minute: float
    short: TimedShare | None
    """Layers below a millisecond."""
    long: TimedShare | None
    """Layers above a millisecond."""


def bench_measure(
    device: str = "torch", seconds: float = 20.0, clock: Callable[[], float] = time.monotonic
) -> MeasureBench:
    """Sweep a fixed plan for a while. The first visit starts the device, so the time counts from its end."""
    config = parse_sweep(PLAN.replace("DEVICE", device))
    visits: list[Visit] = []
    ends: list[float] = []

    def note(pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        visits.append(visit)
        ends.append(clock())

    def since_start() -> float:
        return clock() - ends[0] if ends else 0.0

    with tempfile.TemporaryDirectory(prefix="medn-bench-") as folder:
        run_sweep(config, RunFolder(Path(folder)), seconds=seconds, on_visit=note, clock=since_start)
    if len(visits) < 2:
        raise NothingMeasured(f"only {len(visits)} visits within {seconds:g} s; give more with --time")
    measured_s = ends[-1] - ends[0]
    good = [visit for visit in visits[1:] if visit.status == "ok"]
    rate = (len(visits) - 1) / measured_s
    return MeasureBench(
        device=device,
        seconds=measured_s,
        visits=len(visits) - 1,
        visits_per_second=rate,
        points_per_minute=60 * rate / VISITS_PER_POINT,
        short=timed_share([visit for visit in good if not _is_long(visit)]),
        long=timed_share([visit for visit in good if _is_long(visit)]),
    )


def _is_long(visit: Visit) -> bool:
    return float(np.median(visit.samples.wall_s)) > LONG_LAYER_S


def timed_share(visits: list[Visit]) -> TimedShare | None:
    if not visits:
        return None
    elapsed_s = sum(visit.elapsed_s for visit in visits)
    timed_s = sum(visit.samples.total_s for visit in visits)
    return TimedShare(len(visits), elapsed_s / len(visits), timed_s / elapsed_s)
