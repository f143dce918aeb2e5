"""How long a call of medn's own takes on one thread, in processor time, and a fixed piece of work to compare it with.

How many times as long as the reference something takes compares between machines where microseconds do not. This is no
measuring loop for layers: those are timed by the wall clock of their device, in samples that are all kept
(`medn.devices.take_samples`), while one number for a call in this process is enough here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from medn.core.packages import is_installed
from medn.core.table import Array

MOMENT_S = 1e-3
SERIES = 5
"""Short calls are repeated for so long, in so many series."""

Clock = Callable[[], float]

_MATRIX = np.full((48, 48), 1 / 48)


def reference() -> Array:
    """A fixed piece of work like that of a small network, in plain NumPy."""
    result = _MATRIX
    for _ in range(4):
        result = np.tanh(result @ _MATRIX)
    return result


def processor_seconds(call: Callable[[], object], clock: Clock) -> float:
    """The usual time of a call: the median of a few series, each as long as makes reading the clock cheap."""
    began = clock()
    call()
    first = clock() - began
    if first > MOMENT_S:
        return first
    times = max(1, round(MOMENT_S / SERIES / max(first, 1e-7)))
    series = []
    for _ in range(SERIES):
        began = clock()
        for _ in range(times):
            call()
        series.append((clock() - began) / times)
    return statistics.median(series)


def one_thread() -> AbstractContextManager[object]:
    """Keeps libraries from spreading one call over several threads, where there is something that can."""
    if not is_installed("threadpoolctl"):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits
