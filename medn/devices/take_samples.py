"""The measuring loop: one short visit to a layer that is ready to run.

A visit warms up, finds how many calls make one sample long enough for the clock, then takes samples until the
confidence interval of the visit's quantile is narrow enough or the time for the visit is spent. Everything it touches
is an argument, so tests bring their own clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from medn.core.values import Samples
from medn.devices.backend import Timer

SHORTEST_SAMPLE_S = 50e-6
"""Shorter samples than this would carry more than a percent of clock and loop; longer ones catch more disturbance."""

WARM_UP_SHARE = 0.1
LEAST_SAMPLES = 5
MOST_SAMPLES = 400
CHECK_EVERY = 5
IDLE_QUANTILE = 0.1
LOADED_QUANTILE = 0.5
BESIDE_SHARE = 0.3
"""Between samples, what is timed beside them is timed again after this share of a visit's time."""
BRIEF_SHARE = 0.05
"""Samples shorter than this share of a visit would notice that something else was in the caches just before."""
MOST_PROFILED = 25
PROFILE_S = 0.03


@dataclass(frozen=True)
class VisitOptions:
    """How long a visit may last and how sure it wants to be."""

    seconds: float = 0.05
    precision: float = 0.02
    """Relative half width of the quantile's confidence interval at which a visit ends early."""
    quantile: float = IDLE_QUANTILE


Resources = Callable[[], tuple[float, int]]
"""CPU seconds used and involuntary context switches so far."""


def process_resources(threads: int) -> Resources:
    """What the calling thread has used, or the whole process where the layer runs on several threads."""
    try:
        import resource
    except ImportError:  # Windows counts no context switches: every sample passes as undisturbed there.
        return lambda: (time.process_time(), 0)
    who = resource.RUSAGE_THREAD if threads == 1 and hasattr(resource, "RUSAGE_THREAD") else resource.RUSAGE_SELF
    clock = time.thread_time if threads == 1 else time.process_time
    return lambda: (clock(), resource.getrusage(who).ru_nivcsw)


def run_for_profile(run: Callable[[], object]) -> int:
    """Run often enough for a backend's own profile to be worth reading, and tell how often."""
    began = time.perf_counter()
    for count in range(MOST_PROFILED):
        if count >= LEAST_SAMPLES and time.perf_counter() - began > PROFILE_S:
            return count
        run()
    return MOST_PROFILED


def half_width(wall_s: list[float], quantile: float) -> float:
    """Relative half width of the 95 % confidence interval of a quantile, from the ranks around it.

    >>> half_width([1.0] * 20, 0.5)
    0.0
    """
    ordered = sorted(wall_s)
    count = len(ordered)
    spread = 1.96 * math.sqrt(count * quantile * (1 - quantile))
    low = max(0, math.floor(count * quantile - spread))
    high = min(count - 1, math.ceil(count * quantile + spread))
    middle = ordered[min(count - 1, int(count * quantile))]
    return (ordered[high] - ordered[low]) / (2 * middle) if middle > 0 else math.inf


def take_samples(
    run: Callable[[], None],
    timer: Timer,
    resources: Resources,
    options: VisitOptions,
    *,
    before_sample: Callable[[], None] | None = None,
    beside: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Time a layer that has run once already.

    `before_sample` makes a cold cache cold again; a sample is a single call then. `beside` is called before, between
    and after the samples, to time something else there.
    """
    wall_s: list[float] = []
    cpu_s: list[float] = []
    preempted: list[bool] = []

    def sample(calls: int) -> float:
        if before_sample:
            before_sample()
        cpu_before, switches_before = resources()
        timer.start()
        for _ in range(calls):
            run()
        elapsed_s = timer.stop()
        cpu_after, switches_after = resources()
        wall_s.append(elapsed_s / calls)
        cpu_s.append((cpu_after - cpu_before) / calls)
        preempted.append(switches_after > switches_before)
        return elapsed_s

    began = clock()
    if beside:
        beside()
    calls = 1
    if sample(calls) < options.seconds:  # a call that fills the visit is its one sample; any other one warms up
        while clock() - began < options.seconds * WARM_UP_SHARE and len(wall_s) < MOST_SAMPLES:
            sample(calls)
        calls = 1 if before_sample else max(1, math.ceil(SHORTEST_SAMPLE_S / max(min(wall_s), 1e-9)))
        for kept in (wall_s, cpu_s, preempted):
            kept.clear()
        due = began + options.seconds * BESIDE_SHARE
        while not _enough(wall_s, preempted, options, clock() - began):
            elapsed_s = sample(calls)
            if beside and clock() >= due:
                beside()
                if elapsed_s < options.seconds * BRIEF_SHARE and not before_sample:
                    run()
                due = clock() + options.seconds * BESIDE_SHARE
    if beside:
        beside()
    return Samples(np.array(wall_s), np.array(cpu_s), np.array(preempted, dtype=np.bool_), calls)


def _enough(wall_s: list[float], preempted: list[bool], options: VisitOptions, spent_s: float) -> bool:
    """Whether the visit's time is spent, or its quantile is known well enough."""
    count = len(wall_s)
    if count < LEAST_SAMPLES:
        return False
    if spent_s >= options.seconds or count >= MOST_SAMPLES:
        return True
    if count % CHECK_EVERY:
        return False
    kept = [wall for wall, disturbed in zip(wall_s, preempted, strict=True) if not disturbed]
    return len(kept) >= 2 * LEAST_SAMPLES and half_width(kept, options.quantile) <= options.precision
