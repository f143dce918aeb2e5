"""A cold cache: reading a buffer larger than the last level of cache pushes a layer's data out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

DEFAULT_CACHE_BYTES = 32 * 2**20
"""Assumed where the system does not tell its cache sizes."""

SWEPT_PER_CACHE_BYTE = 2
"""A buffer of just the cache's size leaves part of the old data in place; twice the size leaves none to speak of."""


def largest_cache_bytes(environments: Mapping[str, Any]) -> float:
    """The largest cache among machines that were measured, as far as what is written about them tells.

    >>> largest_cache_bytes({"here": {"cpu": {"cache_bytes": {"L2": 1048576, "L3": 16777216}}}})
    16777216.0
    """
    sizes: list[float] = []
    for environment in environments.values():
        known: Any = environment
        for name in ("cpu", "cache_bytes"):
            known = known.get(name) if isinstance(known, Mapping) else None
        if isinstance(known, Mapping):
            sizes += [float(size) for size in known.values() if type(size) in (int, float) and 0 < size < 1e15]
    return max(sizes, default=float(DEFAULT_CACHE_BYTES))


def cache_flusher(cache_bytes: int | None) -> Callable[[], None]:
    """A function that leaves nothing of the layer in the caches. It only reads: dirty lines would be written back
    during the timing that follows."""
    size = SWEPT_PER_CACHE_BYTE * (cache_bytes or DEFAULT_CACHE_BYTES)
    buffer = np.ones(size // 8, dtype=np.float64)

    def flush() -> None:
        buffer.sum()

    return flush
