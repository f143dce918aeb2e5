"""An ensemble of oblivious trees: all nodes of a level ask the same question, so that the answers number the leaf.

The table of such trees is small: instead of a bit for every leaf it holds the bits of the leaf's number. Where even
that is too large, the levels are asked one after the other.

Inputs fit float32, and so do the borders, as CatBoost compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LARGEST_LOG, check_array, check_numbers, check_whole
from medn.core.table import Array
from medn.program.formulas import by_table
from medn.regressors.form import Form, Parts, forms
from medn.regressors.thresholds import Thresholds

ObliviousTree = tuple[Sequence[int], Sequence[float], Sequence[float]]
"""The feature and the border that each level asks for, and the leaves: the first level is the lowest bit of a leaf's
number, set where the input is above the border."""

MOST_LEVELS = 16
MOST_LEAVES = 5_000_000
ROWS_AT_ONCE = 256

NEVER = np.finfo(np.float32).max
"""A border that no input is above."""


@forms.register
class ObliviousTrees(Form):
    """`base` plus the leaf that each tree leads to. Trees with fewer levels than others never get to further leaves."""

    name = "oblivious_trees"
    description = "a sum of decision trees that ask one question a level"

    def __init__(
        self,
        feature: NDArray[np.int16],
        border: NDArray[np.float32],
        leaves: NDArray[np.float32],
        base: float,
        width: int,
    ) -> None:
        self.feature = feature
        self.border = border
        self.leaves = leaves
        self.base = base
        self.width = width

    @classmethod
    def from_trees(cls, trees: Sequence[ObliviousTree], base: float, width: int) -> ObliviousTrees:
        """`width` is the number of inputs."""
        levels = max(1, *(len(feature) for feature, _, _ in trees))
        features = np.zeros((len(trees), levels), dtype=np.int16)
        borders = np.full((len(trees), levels), NEVER, dtype=np.float32)
        values = np.zeros((len(trees), 2**levels), dtype=np.float32)
        for tree, (feature, border, leaves) in enumerate(trees):
            features[tree, : len(feature)] = feature
            borders[tree, : len(border)] = border
            values[tree, : len(leaves)] = leaves
        return cls(features, borders, values, base, width)

    def log_value(self, inputs: Array) -> Array:
        found: Array = by_table("oblivious_trees", inputs, self) + self.base
        return found

    def sums(self, inputs: Array) -> Array:
        """What the leaves of all trees add up to."""
        if self._table is None:
            return self.walk(inputs)
        sums = np.empty(len(inputs))
        for block, numbers in self._thresholds.combined(inputs, self._table, np.bitwise_or):
            sums[block] = self._sums(numbers)
        return sums

    def _sums(self, numbers: NDArray[Any]) -> Array:
        """The sum over the trees of the leaves with these numbers."""
        values, starts, ones = self._values
        return np.asarray(values.take(np.add(numbers, starts, dtype=np.intp)).dot(ones))

    def walk(self, inputs: Array) -> Array:
        """The same without a table."""
        sums = np.empty(len(inputs))
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            block = inputs[start : start + ROWS_AT_ONCE]
            numbers = np.zeros((len(block), len(self.feature)), dtype=np.intp)
            for level in range(self.feature.shape[1]):
                numbers |= (block[:, self.feature[:, level]] > self.border[:, level]) << level
            sums[start : start + ROWS_AT_ONCE] = self._sums(numbers)
        return sums

    # All of this is made at the first prediction, so that loading stays fast.

    @cached_property
    def _values(self) -> tuple[Array, NDArray[np.intp], Array]:
        """All leaves in a row, where those of each tree begin, and a one per tree."""
        trees, leaves = self.leaves.shape
        return self.leaves.astype(np.float64).ravel(), np.arange(trees, dtype=np.intp) * leaves, np.ones(trees)

    @cached_property
    def _thresholds(self) -> Thresholds:
        return Thresholds.of(self.feature, self.border)

    @cached_property
    def _table(self) -> NDArray[Any] | None:
        """The bits that an input sets in the number of every tree's leaf, by where it lies among the borders."""
        trees, levels = self.feature.shape
        dtype = np.dtype(np.uint8 if levels <= 8 else np.uint16)
        if not self._thresholds.allow_table(trees * dtype.itemsize):
            return None
        table = np.zeros((self._thresholds.rows, trees), dtype)
        for feature, borders, start, end in self._thresholds:
            tree, level = np.nonzero(self.feature == feature)
            above = start + 1 + np.searchsorted(borders, self.border[tree, level])
            np.bitwise_or.at(table, (above, tree), np.left_shift(1, level).astype(dtype))
            own = table[start : end + 1]
            np.bitwise_or.accumulate(own, axis=0, out=own)
        return table

    def check(self, width: int) -> None:
        """Every number that a tree's answers can make is a leaf; features are inputs."""
        check_numbers("the base of oblivious trees", [self.base], -LARGEST_LOG, LARGEST_LOG)
        check_whole("the inputs of oblivious trees", self.width, width, width)
        if self.feature.ndim != 2 or not 1 <= self.feature.shape[1] <= MOST_LEVELS:
            raise ValueError(f"oblivious trees must have from 1 to {MOST_LEVELS} levels (got {self.feature.shape})")
        trees, levels = self.feature.shape
        if not 0 < trees << levels <= MOST_LEAVES:
            raise ValueError(f"oblivious trees must have from 1 to {MOST_LEAVES:,} leaves (got {trees << levels:,})")
        check_array("the features of oblivious trees", self.feature, (trees, levels), "i", 0, width - 1)
        check_array("the borders of oblivious trees", self.border, (trees, levels))
        check_array("the leaves of oblivious trees", self.leaves, (trees, 2**levels))

    def parts(self) -> Parts:
        arrays = {name: getattr(self, name) for name in ("feature", "border", "leaves")}
        return Parts(self.name, {"base": self.base, "width": self.width}, arrays)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> ObliviousTrees:
        arrays, facts = parts.arrays, parts.facts
        return cls(arrays["feature"], arrays["border"], arrays["leaves"], facts["base"], facts["width"])
