"""Fixed kernels that are timed between the samples of a layer: when they slow down, so did the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

MATRIX = 96
"""Rows of a square product that stays in the first caches: tells the clock of the processor and who shares its core."""

READ_BYTES = 4 << 20
"""More than a core's own caches hold: tells who shares the last level of cache and the way to memory."""

CALLS = 2
"""The first finds its data gone from the caches, so the faster one counts."""


Runs = dict[str, list[float]]
"""Seconds by the name of the kernel."""


class ReferenceKernels:
    """Made once, as the buffers must be the same at every visit."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        matrix = np.full((MATRIX, MATRIX), 0.5, dtype=np.float32)
        product = np.empty_like(matrix)
        buffer = np.ones(READ_BYTES // 4, dtype=np.float32)
        self._kernels: dict[str, Callable[[], object]] = {
            "compute": lambda: np.matmul(matrix, matrix, out=product),
            "memory": buffer.sum,
        }
        self._clock = clock

    def time(self, runs: Runs) -> None:
        """Add one more time of every kernel."""
        for name, kernel in self._kernels.items():
            runs.setdefault(name, []).append(min(self._timed(kernel) for _ in range(CALLS)))

    def _timed(self, kernel: Callable[[], object]) -> float:
        began = self._clock()
        kernel()
        return self._clock() - began
