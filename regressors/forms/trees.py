"""An ensemble of decision trees: the sum of the leaves that an input falls into, whichever library grew them.

NumPy evaluates trees of a few dozen leaves as tables of bits, and forests of large ones level by level.

Inputs fit float32, so a threshold rounded down to float32 decides each of them as the library's own threshold does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medn.core.checking import LARGEST_LOG, check_array, check_numbers, check_whole
from medn.core.table import Array
from medn.program.c_engine import node_table
from medn.program.formulas import by_table, in_blocks
from medn.regressors.bit_trees import BitTrees, Nodes, is_worthwhile
from medn.regressors.form import Form, Parts, forms

Tree = tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.int32]]
"""The nodes of one tree in preorder, so that a left child follows its parent: the feature asked for (-1 in a leaf), the
threshold (in a leaf: its value), and the place of the right child (0 in a leaf)."""

MOST_LEVELS = 1_000
"""Runtimes read a tree of ONNX by calling themselves once per level, and end the process where the stack does."""

MOST_NODES = 5_000_000

ROWS_AT_ONCE = 1024
"""Rows are walked down the trees in blocks that stay in the cache."""


def rounded_down(thresholds: ArrayLike) -> NDArray[np.float32]:
    """The largest float32 not above each threshold: `x <= t` stays the same question for every float32 x.

    >>> float(rounded_down(0.1)) <= 0.1 < float(np.nextafter(rounded_down(0.1), np.float32(1)))
    True
    """
    exact = np.asarray(thresholds, dtype=np.float64)
    nearest = exact.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest.astype(np.float64) > exact, below, nearest)


def tree(
    feature: Sequence[int], threshold: ArrayLike, left: Sequence[int], right: Sequence[int], value: ArrayLike
) -> Tree:
    """One tree from arrays over its nodes, the root first; a leaf is its own left child or has a negative one.

    The decision is `input <= threshold` to the left.
    """
    order: list[int] = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0 and left[node] != node:
            waiting += (right[node], left[node])
    nodes = np.array(order)
    place = np.zeros(len(feature), dtype=np.int32)
    place[nodes] = np.arange(len(nodes))
    children = np.asarray(left)[nodes]
    is_leaf = (children < 0) | (children == nodes)
    return (
        np.where(is_leaf, -1, np.asarray(feature)[nodes]).astype(np.int16),
        np.where(is_leaf, np.asarray(value, dtype=np.float32)[nodes], rounded_down(threshold)[nodes]),
        np.where(is_leaf, 0, place[np.asarray(right)[nodes]]).astype(np.int32),
    )


@forms.register
class Trees(Form):
    """`base` plus the leaf that each tree leads to."""

    name = "trees"
    description = "a sum of decision trees"

    def __init__(
        self,
        feature: NDArray[np.int16],
        number: NDArray[np.float32],
        right: NDArray[np.int32],
        roots: NDArray[np.int32],
        base: float,
        width: int,
    ) -> None:
        self.feature = feature
        self.number = number
        self.right = right
        self.roots = roots
        self.base = base
        self.width = width

    @classmethod
    def from_trees(cls, trees: Iterable[Tree], base: float, width: int) -> Trees:
        """`width` is the number of inputs."""
        feature, number, right = zip(*trees, strict=True)
        sizes = [len(nodes) for nodes in feature]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        made = cls(np.concatenate(feature), np.concatenate(number), np.concatenate(right), roots, base, width)
        if made.nodes.levels > MOST_LEVELS:
            raise ValueError(f"a tree must have at most {MOST_LEVELS} levels (got {made.nodes.levels})")
        return made

    def log_value(self, inputs: Array) -> Array:
        found: Array = by_table("trees", inputs, self) + self.base
        return found

    def sums(self, inputs: Array) -> Array:
        """What the leaves that each row falls into add up to."""
        return self.walk(inputs) if self.bits is None else self.bits.sums(inputs)

    @cached_property
    def bits(self) -> BitTrees | None:
        """Made at the first prediction, so that loading stays fast."""
        return BitTrees(self.nodes) if is_worthwhile(self.nodes) else None

    @cached_property
    def node_table(self) -> NDArray[Any]:
        """The nodes as the C engine walks them."""
        return node_table(self.feature, self.number, self.nodes.right_place)

    @cached_property
    def nodes(self) -> Nodes:
        return Nodes(self.feature, self.number, self.right, self.roots)

    def walk(self, inputs: Array) -> Array:
        """The same without a table, a level of all trees at a time."""
        return in_blocks(inputs, self._walk, ROWS_AT_ONCE)

    def _walk(self, inputs: Array) -> Array:
        left, right, feature, threshold = self._steps
        rows = np.arange(len(inputs))[:, None]
        nodes = np.broadcast_to(self.roots, (len(inputs), len(self.roots)))
        while True:
            goes_left = inputs[rows, feature[nodes]] <= threshold[nodes]
            following = np.where(goes_left, left[nodes], right[nodes])
            if np.array_equal(following, nodes):
                return np.asarray(self.number[nodes].sum(axis=1, dtype=np.float64))
            nodes = following

    @cached_property
    def _steps(self) -> tuple[NDArray[Any], ...]:
        """Children, features and thresholds by absolute place, with leaves that lead to themselves."""
        nodes, places = self.nodes, np.arange(len(self.feature))
        left = np.where(nodes.is_leaf, places, places + 1)
        return left, nodes.right_place, np.maximum(self.feature, 0), self.number

    def check(self, width: int) -> None:
        """Nodes stand in preorder, each in one tree, so that every walk ends; features are inputs."""
        check_numbers("the base of trees", [self.base], -LARGEST_LOG, LARGEST_LOG)
        check_whole("the inputs of trees", self.width, width, width)
        count, trees = len(self.feature), len(self.roots)
        if not 0 < count <= MOST_NODES:
            raise ValueError(f"trees must have from 1 to {MOST_NODES:,} nodes (got {count:,})")
        check_array("the features of trees", self.feature, (count,), "i", -1, width - 1)
        check_array("the numbers of trees", self.number, (count,))
        check_array("the branches of trees", self.right, (count,), "i", 0, count)
        check_array("the roots of trees", self.roots, (trees,), "i", 0, count - 1)
        if not trees or self.roots[0] != 0 or not (np.diff(self.roots) > 0).all():
            raise ValueError("the roots of its trees are not in order")
        self.nodes.check()
        if self.nodes.levels > MOST_LEVELS:
            raise ValueError(f"a tree must have at most {MOST_LEVELS} levels (got {self.nodes.levels})")

    def parts(self) -> Parts:
        arrays = {name: getattr(self, name) for name in ("feature", "number", "right", "roots")}
        return Parts(self.name, {"base": self.base, "width": self.width}, arrays)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Trees:
        arrays, facts = parts.arrays, parts.facts
        nodes = arrays["feature"], arrays["number"], arrays["right"]
        return cls(*nodes, arrays["roots"], facts["base"], facts["width"])
