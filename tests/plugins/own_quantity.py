"""A quantity of one's own: the misses of a cache, counted by a counter that grows by 1200 whenever it is read."""

from __future__ import annotations

import itertools

from medn.core.quantities import FURTHER, Quantity

_readings = itertools.count(0, 1200)

FURTHER.declare(
    Quantity(
        "cache_misses",
        "cache misses",
        "lines that one call does not find in the cache",
        unit="lines",
        counter=lambda: next(_readings),
        adds_up=True,
    )
)
