"""The data sheet of this CPU, measured in about a second: what its arithmetic and its memory reach at best."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

from medn.core.data_sheet import Sheet
from medn.core.environment import SYSTEM_FILES, SystemFiles, clock_hz, last_level_cache_bytes, usable_cores

MATRIX = 768
"""Rows of a square product: large enough to reach the peak, small enough to be done many times."""

COPIED_BYTES = 64 << 20
"""More than any cache holds."""

MEASURE_S = 0.2
"""For each of the two."""


@cache
def cpu_sheet() -> Sheet:
    """That of this machine, measured once."""
    return measure_cpu_sheet()


def measure_cpu_sheet(files: SystemFiles = SYSTEM_FILES, seconds: float = MEASURE_S) -> Sheet:
    """Numbers with three digits: more would say something about this second only."""
    left, right = np.random.default_rng(0).random((2, MATRIX, MATRIX), dtype=np.float32)
    result = np.empty_like(left)
    source, target = (np.ones(COPIED_BYTES // 8) for _ in range(2))
    product_s = _shortest_s(lambda: np.matmul(left, right, out=result), seconds)
    copy_s = _shortest_s(lambda: np.copyto(target, source), seconds)
    cache_bytes, hz = last_level_cache_bytes(files), clock_hz(files)
    sheet = {
        "peak_gflops": 2 * MATRIX**3 / product_s / 1e9,
        "bandwidth_gb_s": 2 * COPIED_BYTES / copy_s / 1e9,
        "multiprocessors": float(usable_cores()),
        **({"cache_mb": cache_bytes / 1e6} if cache_bytes else {}),
        **({"clock_mhz": hz / 1e6} if hz else {}),
    }
    return {name: float(f"{number:.3g}") for name, number in sheet.items()}


def _shortest_s(call: Callable[[], object], seconds: float) -> float:
    """The shortest of several calls: a peak is what nothing disturbed."""
    call()  # what happens once, such as starting threads
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or shortest == float("inf"):
        began = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest
