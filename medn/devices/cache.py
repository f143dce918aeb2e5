"""A cold cache: reading a buffer larger than the last level of cache pushes a layer's data out of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from medn.core.environment import DEFAULT_CACHE_BYTES

SWEPT_PER_CACHE_BYTE = 2
"""A buffer of just the cache's size leaves part of the old data in place; twice the size leaves none to speak of."""


def cache_flusher(cache_bytes: int | None) -> Callable[[], None]:
    """A function that leaves nothing of the layer in the caches. It only reads: dirty lines would be written back
    during the timing that follows."""
    size = SWEPT_PER_CACHE_BYTE * (cache_bytes or DEFAULT_CACHE_BYTES)
    return reader(size, cache_bytes)


def reader(size_bytes: int, cache_bytes: int | None) -> Callable[[], None]:
    """A function that reads so many bytes, or as many as leave nothing else in the caches."""
    size = min(size_bytes, SWEPT_PER_CACHE_BYTE * (cache_bytes or DEFAULT_CACHE_BYTES))
    buffer = np.ones(size // 8, dtype=np.float64)

    def read() -> None:
        buffer.sum()

    return read
