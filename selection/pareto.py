"""What is worth a look: whatever nothing else beats in everything."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.selection.option import Option


def nondominated(points: Array) -> NDArray[np.bool_]:
    """Which rows no other row equals or beats in every column (less is better); of equal rows the first is kept.

    >>> nondominated(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0], [1.0, 3.0]])).tolist()
    [True, True, False, False]
    """
    kept = np.zeros(len(points), dtype=bool)
    order = np.lexsort(points.T[::-1])  # by the first column, then the second...; stable, so the first of equals leads
    if points.shape[1] <= 2:
        last = points[order, -1]
        lowest = np.concatenate([[np.inf], np.minimum.accumulate(last)[:-1]])
        kept[order[last < lowest]] = True
        return kept
    best = np.empty_like(points)
    count = 0
    for index in order:
        if not (best[:count] <= points[index]).all(axis=1).any():
            best[count] = points[index]
            count += 1
            kept[index] = True
    return kept


def front(options: Iterable[Option]) -> list[Option]:
    """The options of one place that no other equals or beats in error, time, bytes and load time."""
    found = list(options)
    points = [[option.believed, option.cost.us, option.cost.bytes, option.cost.load_ms] for option in found]
    return [option for option, keep in zip(found, nondominated(np.array(points)), strict=True) if keep]
