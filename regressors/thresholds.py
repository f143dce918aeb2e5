"""Tables that have a row for every place between two thresholds of a feature, the features one below the other.

An input selects one row per feature, and these rows are combined bit by bit. There is no branch and no pointer to
follow, so numpy alone is faster than an interpreter of trees, as long as the table is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

ROWS_AT_ONCE = 128

LARGEST_TABLE = 32_000_000
"""Bytes. Beyond this a table is no longer a small thing to make and to keep in memory."""


class Thresholds:
    """The thresholds of each feature, in order, and where inputs lie among them: a threshold itself lies below."""

    def __init__(self, of_feature: Mapping[int, Array]) -> None:
        self.of_feature = of_feature
        sizes = np.array([len(values) + 1 for values in of_feature.values()], dtype=np.intp)
        self.rows = int(sizes.sum())
        self.starts: list[int] = (np.cumsum(sizes) - sizes).tolist()
        """The first row of each feature: that of inputs below all thresholds."""
        self.ends: list[int] = (np.cumsum(sizes) - 1).tolist()
        """The last row of each feature."""

    @classmethod
    def of(cls, feature: NDArray[Any], threshold: NDArray[Any]) -> Thresholds:
        """The different ones of those that belong to the features beside them."""
        features = np.unique(feature).tolist()
        return cls({each: np.unique(threshold[feature == each]).astype(np.float64) for each in features})

    def __iter__(self) -> Iterator[tuple[int, Array, int, int]]:
        """Each feature with its thresholds and its first and last row."""
        return zip(self.of_feature, self.of_feature.values(), self.starts, self.ends, strict=True)

    def allow_table(self, row_bytes: int) -> bool:
        """Whether a table of so many bytes a row is small enough."""
        return self.rows * row_bytes <= LARGEST_TABLE

    def combined(self, inputs: Array, table: NDArray[Any], by: np.ufunc) -> Iterator[tuple[slice, NDArray[Any]]]:
        """What the rows of a table that each input selects come to, a block of inputs at a time.

        The array of a block is overwritten by the next one.
        """
        chosen = np.empty((len(self.of_feature), len(inputs)), dtype=np.intp)
        for rows, (feature, thresholds, start, _) in zip(chosen, self, strict=True):
            np.add(np.searchsorted(thresholds, inputs[:, feature]), start, out=rows)
        own, others = (np.empty((ROWS_AT_ONCE, table.shape[1]), dtype=table.dtype) for _ in range(2))
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            first, *following = chosen[:, block]
            result, other = own[: len(first)], others[: len(first)]
            # In the mode `clip` numpy writes straight into the array that is given.
            table.take(first, axis=0, out=result, mode="clip")
            for rows in following:
                table.take(rows, axis=0, out=other, mode="clip")
                by(result, other, out=result)
            yield block, result
