"""Squared distances from queries to a set of points, a block of queries at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

ROWS_AT_ONCE = 256
"""So many queries at once keep their distances to a few thousand points in the cache."""

NUMBERS_AT_ONCE = 1 << 22
"""Distances that are held in memory together, however many points there are."""


class Points:
    """Points saved as float32 and computed with as float64.

    >>> Points(np.array([[0, 0], [3, 4]], dtype=np.float32)).map(np.array([[0.0, 0.0]]), lambda squared: squared[:, 1])
    array([25.])
    """

    def __init__(self, saved: NDArray[np.floating]) -> None:
        self.saved = saved
        self._transposed = np.ascontiguousarray(saved.T, dtype=np.float64)
        self._squares = (self._transposed**2).sum(axis=0)

    def map(self, queries: Array, function: Callable[[Array], Array]) -> Array:
        """What the function makes of the squared distances, one number per query."""
        result = np.empty(len(queries))
        step = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // max(1, len(self.saved))))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            result[block] = function(self.squared(queries[block]))
        return result

    def squared(self, queries: Array) -> Array:
        """The squared distance of each query to each point."""
        squared = queries @ self._transposed
        squared *= -2.0
        squared += self._squares
        squared += (queries**2).sum(axis=1)[:, None]
        return np.maximum(squared, 0.0, out=squared)
