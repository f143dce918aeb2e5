"""How long a sweep will take, roughly, without touching a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medn.core.table import Array
from medn.core.values import Point
from medn.layer_generators.sweep import Measure

OVERHEAD_S = 0.02
"""Building a layer and running it once, on average over the kinds."""
LOADED_SHARE = 0.15
"""What holding and reading a utilisation adds to a visit."""
FIRST_VISIT_S = 0.1
"""What the first visit to a point takes longer, where the layer has to be exported and its output compared."""
BUILD_S = 0.05
"""The same of a layer that is not small, with the reading of the machine's state."""
CALLS = 5
"""Of a layer that takes longer than a visit, warm-up included."""
START_S = 3.0
"""Starting the process of one device with one number of threads."""


def visit_seconds(latency_s: Array, visit_time_s: float) -> Array:
    """What one visit to layers of these latencies takes: however long a layer is, it is called a few times."""
    return BUILD_S + np.maximum(visit_time_s, CALLS * latency_s)


def expected_seconds(points: Sequence[Point], measure: Measure) -> float:
    """The time all planned visits take. Visits that end early and unstable points that get more pull both ways."""
    visit_s = measure.visit_time_s + OVERHEAD_S
    loaded = sum(point.condition.utilization > 0 for point in points)
    processes = {(point.device, point.condition.threads) for point in points}
    return measure.visits * visit_s * (len(points) + LOADED_SHARE * loaded) + START_S * len(processes)


def affordable_points(seconds: float, measure: Measure, devices: int) -> int:
    """How many points over all devices that time suffices for with care, without load and on one number of threads.

    >>> affordable_points(63.0, Measure(visits=3, visit_time=0.03), devices=1)
    240
    """
    point_s = FIRST_VISIT_S + measure.visits * (measure.visit_time_s + OVERHEAD_S)
    return max(0, int((seconds - START_S * devices) / point_s))
