"""Squared distances from queries to a set of points, a block of queries at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.program.formulas import in_blocks
from medn.program.symbols import StepTable, Symbol

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
        self.transposed = np.ascontiguousarray(saved.T, dtype=np.float64)
        self._squares = (self.transposed**2).sum(axis=0)

    def map(self, queries: Array, function: Callable[[Array], Array]) -> Array:
        """What the function makes of the squared distances, one number per query."""
        step = min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // max(1, len(self.saved)))
        return in_blocks(queries, lambda block: function(self.squared(block)), step)

    def squared(self, queries: Array) -> Array:
        """The squared distance of each query to each point."""
        squared = queries @ self.transposed
        squared *= -2.0
        squared += self._squares
        squared += (queries**2).sum(axis=1)[:, None]
        return np.maximum(squared, 0.0, out=squared)


def near_points(
    operation: str, queries: Any, points: Points, function: Callable[[Array], Array], facts: tuple[Any, ...]
) -> Any:
    """What a function of the squared distances to points says of each query; `facts` tell engines what it does."""
    if isinstance(queries, Symbol):
        data = StepTable(operation, (points, function, *facts))
        return queries.tape.note(operation, [queries], 1, 1, data=data)
    return points.map(queries, function)
