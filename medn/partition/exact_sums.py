"""Sums of bytes without rounding: a rounding error could count as a transfer or break a memory limit."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

Whole = NDArray[Any]
"""Whole numbers: 64-bit integers where these suffice, Python's own otherwise."""


def is_amount(value: object) -> bool:
    """Whether something is a finite number from 0 on."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(0 <= value <= sys.float_info.max)


def as_numbers(values: object) -> Array | None:
    """An array of numbers; None where something else was given."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None


def scale_of(values: Iterable[float]) -> int:
    """The least number by which all of these become whole; 1 where they are.

    >>> scale_of([3, 0.5, 0.125])
    8
    """
    return max((_ratio(value)[1] for value in values), default=1)  # each is a power of two


def whole(values: Iterable[float], scale: int) -> Whole:
    """So many times as much of each, rounded down where that is not whole."""
    return _array([top * scale // bottom for top, bottom in map(_ratio, values)])


def running_sums(values: Whole) -> Whole:
    """The sums of all values before each index.

    >>> running_sums(np.array([1, 2, 4])).tolist()
    [0, 1, 3, 7]
    """
    return _array([0, *accumulate(values.tolist())])


def held_between(values: Whole, spans: Sequence[tuple[int, int]], length: int) -> Whole:
    """At each index the sum of the values whose span `(first, stop)` contains it.

    >>> held_between(np.array([5, 2]), [(0, 2), (1, 3)], 4).tolist()
    [5, 7, 2, 0]
    """
    change = [0] * (length + 1)
    for value, (first, stop) in zip(values.tolist(), spans, strict=True):
        if first < stop:
            change[first] += value
            change[stop] -= value
    return _array(list(accumulate(change))[:-1])


class RangeMaximum:
    """Range-maximum queries by a sparse table."""

    def __init__(self, values: Whole) -> None:
        self._rows = [values]
        while 2 * (width := 2 ** (len(self._rows) - 1)) <= len(values):
            row = self._rows[-1]
            self._rows.append(np.maximum(row[:-width], row[width:]))
        count = len(values)
        self._table = np.stack([np.concatenate([row, np.repeat(row[-1:], count - len(row))]) for row in self._rows])
        self._levels = np.array([0, 0, *(length.bit_length() - 1 for length in range(2, count + 1))])

    def between(self, start: NDArray[np.int_], stop: NDArray[np.int_]) -> Whole:
        """The largest from each start to before its stop; of an empty range, its first."""
        level = self._levels[np.maximum(stop - start, 0)]
        first = np.minimum(start, self._table.shape[1] - 1)
        second = np.maximum(stop - 2**level, first)
        return np.asarray(np.maximum(self._table[level, first], self._table[level, second]))


def _ratio(value: float) -> tuple[int, int]:
    """A number without rounding."""
    return (int(value), 1) if isinstance(value, (int, np.integer)) else float(value).as_integer_ratio()


def _array(numbers: list[int]) -> Whole:
    # Headroom: sums of what is kept here, and a few times as much, must not overflow.
    fits = sum(map(abs, numbers)) < 2**50
    return np.array(numbers, dtype=np.int64 if fits else object)
