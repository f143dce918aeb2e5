"""Decision trees as tables of bits: where an input lies among all thresholds of a feature says which leaves remain.

Every leaf of a tree is a bit of a word. For each feature and each place between two of its thresholds the table holds
the words of all trees, with the leaves cleared that such a value cannot reach. The bitwise AND of the rows that an
input selects, one per feature, leaves one bit per tree: its leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.program.c_engine import tree_levels
from medn.regressors.thresholds import Thresholds

WORK_PER_WORD = 100
"""What it costs to look up the leaf of a word, in bytes of the table that could be read instead."""

MOST_WORDS = 4
"""Words per tree. The work grows with the leaves of a tree, that of walking down only with its depth."""

# Multiplied by these, the bits of a word end up as different numbers in its highest bits; zero and bit 0 both as 0.
DE_BRUIJN: dict[type[np.unsignedinteger[Any]], int] = {
    np.uint8: 0x17,
    np.uint16: 0x09AF,
    np.uint32: 0x077CB531,
    np.uint64: 0x03F79D71B4CB0A89,
}


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of trees in preorder, one tree after the other; `right` counts from the start of the tree."""

    feature: NDArray[Any]
    """Below zero in a leaf."""
    number: NDArray[Any]
    """The threshold, or the value of the leaf."""
    right: NDArray[Any]
    roots: NDArray[Any]

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        return np.asarray(self.feature < 0)

    @cached_property
    def tree(self) -> NDArray[np.intp]:
        """The tree of each node."""
        return np.repeat(np.arange(len(self.roots)), np.diff([*self.roots, len(self.feature)]))

    @cached_property
    def right_place(self) -> NDArray[np.intp]:
        """The place of the right child, or the own place of a leaf."""
        return np.where(self.is_leaf, np.arange(len(self.feature)), self.roots[self.tree] + self.right.astype(np.intp))

    @cached_property
    def leaf(self) -> NDArray[np.intp]:
        """How many leaves of the same tree come before each node."""
        before: NDArray[np.intp] = np.cumsum(self.is_leaf) - self.is_leaf
        return np.asarray(before - before[self.roots][self.tree])

    @cached_property
    def last(self) -> NDArray[np.intp]:
        """The place of the last leaf below each node, which is reached by always going right."""
        last = self.right_place
        while not np.array_equal(further := last[last], last):
            last = further
        return last

    @cached_property
    def leaf_end(self) -> NDArray[np.intp]:
        """The leaf behind the last one below each node."""
        return np.asarray(self.leaf[self.last] + 1)

    @cached_property
    def levels(self) -> int:
        """How deep the deepest leaf lies: a node is as deep as there are branches it stands below."""
        branches = np.flatnonzero(~self.is_leaf)
        change = np.zeros(len(self.feature) + 1, dtype=np.int64)
        np.add.at(change, branches + 1, 1)
        np.add.at(change, self.last[branches] + 1, -1)
        return 1 + int(np.cumsum(change).max())

    def check(self) -> None:
        """That a left child follows its parent, a right child follows all that is below the left one, and nothing else.

        Raises a ValueError: other nodes would be walked in circles, or belong to two trees.
        """
        levels = tree_levels(self.feature, self.right, self.roots)
        if levels:
            self.__dict__["levels"] = levels
            return
        places = np.arange(len(self.feature))
        end = np.append(self.roots[1:], len(self.feature))[self.tree]
        right = self.roots[self.tree] + self.right.astype(np.int64)
        if not (self.is_leaf | ((right > places + 1) & (right < end))).all():
            raise ValueError("the branches of its trees lead astray")
        branches = np.flatnonzero(~self.is_leaf)
        below_left = self.last[branches + 1] + 1
        if not np.array_equal(below_left, right[branches]) or not np.array_equal(
            self.last[self.roots] + 1, end[self.roots]
        ):
            raise ValueError("the branches of its trees lead astray")

    @cached_property
    def leaves(self) -> NDArray[np.intp]:
        """How many leaves each tree has."""
        return np.bincount(self.tree[self.is_leaf], minlength=len(self.roots))

    @cached_property
    def thresholds(self) -> Thresholds:
        return Thresholds.of(self.feature[~self.is_leaf], self.number[~self.is_leaf])


class Words:
    """Which word and bit stands for each leaf. Bit 0 stays free, so that an empty word is nobody's leaf."""

    def __init__(self, nodes: Nodes) -> None:
        used = len(nodes.thresholds.of_feature)
        self.dtype = min(DE_BRUIJN, key=lambda dtype: self._cost(nodes, dtype, used))
        self.bits = np.iinfo(self.dtype).bits
        counts = -(-nodes.leaves // (self.bits - 1))
        self.first = np.cumsum(counts) - counts
        """The first word of each tree."""
        self.count = int(counts.sum())
        self.most = int(counts.max())
        """So many words has the largest tree."""
        left = np.repeat(nodes.leaves, counts) - (np.arange(self.count) - np.repeat(self.first, counts)) * (
            self.bits - 1
        )
        self.all_leaves = self.between(np.zeros_like(left), left)

    @staticmethod
    def _cost(nodes: Nodes, dtype: type[np.unsignedinteger[Any]], used: int) -> int:
        words = int((-(-nodes.leaves // (np.iinfo(dtype).bits - 1))).sum())
        return words * (used * np.dtype(dtype).itemsize + WORK_PER_WORD)

    def between(self, begin: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[Any]:
        """Words with the bits set of the leaves from begin to end that lie in them."""
        one, most = np.uint64(1), self.bits - 1
        low, high = (one << (np.clip(leaf, 0, most) + 1).astype(np.uint64) for leaf in (begin, end))
        return np.asarray((high - low).astype(self.dtype))


def is_worthwhile(nodes: Nodes) -> bool:
    """Whether a table of bits is the fastest way to evaluate these trees."""
    words = Words(nodes)
    row_bytes = words.count * np.dtype(words.dtype).itemsize
    return words.count <= MOST_WORDS * len(nodes.roots) and nodes.thresholds.allow_table(row_bytes)


class BitTrees:
    """The sum of the leaves that an input falls into.

    >>> stump = Nodes(np.array([0, -1, -1]), np.array([0.5, 10.0, 20.0]), np.array([2, 0, 0]), np.array([0]))
    >>> BitTrees(stump).sums(np.array([[0.4], [0.5], [0.6]])).tolist()
    [10.0, 10.0, 20.0]
    """

    def __init__(self, nodes: Nodes) -> None:
        words = Words(nodes)
        self.thresholds = nodes.thresholds
        self.table = self._table(nodes, words)
        self.factor = words.dtype(DE_BRUIJN[words.dtype])
        self.shift = words.dtype(words.bits - int(words.bits).bit_length() + 1)
        self.offsets = np.arange(words.count) * words.bits
        bits = words.dtype(1) << np.arange(words.bits, dtype=words.dtype)
        self.values = self._values(nodes, words, (bits * self.factor >> self.shift).astype(np.intp))
        self.leaves = self._values(nodes, words, np.arange(words.bits))
        """The same in the order of the bits."""
        self.ones = np.ones(words.count)
        self.constant = float(self.values.sum()) if not self.thresholds.of_feature else 0.0

    def _table(self, nodes: Nodes, words: Words) -> NDArray[Any]:
        left, right = (np.tile(words.all_leaves, (self.thresholds.rows, 1)) for _ in range(2))
        for feature, thresholds, start, end in self.thresholds:
            own = np.flatnonzero(nodes.feature == feature)
            place = start + np.searchsorted(thresholds, nodes.number[own])
            begin, middle, after = nodes.leaf[own], nodes.leaf[nodes.right_place[own]], nodes.leaf_end[own]
            first = words.first[nodes.tree[own]]
            for word in range(words.most):
                shift = word * (words.bits - 1)
                # Above a threshold the left leaves are out of reach, up to it the right ones.
                for table, row, low, high in ((left, place + 1, begin, middle), (right, place, middle, after)):
                    bits = words.between(low - shift, high - shift)
                    hit = np.flatnonzero(bits)
                    np.bitwise_and.at(table.reshape(-1), row[hit] * words.count + first[hit] + word, ~bits[hit])
            of_feature = slice(start, end + 1)
            np.bitwise_and.accumulate(left[of_feature], axis=0, out=left[of_feature])
            np.bitwise_and.accumulate(right[of_feature][::-1], axis=0, out=right[of_feature][::-1])
        left &= right
        return left

    @staticmethod
    def _values(nodes: Nodes, words: Words, slots: NDArray[np.intp]) -> Array:
        """The value of each leaf, where its bit leads to."""
        leaf, tree = nodes.leaf[nodes.is_leaf], nodes.tree[nodes.is_leaf]
        word, bit = np.divmod(leaf, words.bits - 1)
        values = np.zeros(words.count * words.bits)
        values[(words.first[tree] + word) * words.bits + slots[bit + 1]] = nodes.number[nodes.is_leaf]
        return values

    def _places(self, leaves: NDArray[Any]) -> NDArray[np.intp]:
        """Where the value of the one leaf of each word is; the words are used up."""
        leaves *= self.factor
        leaves >>= self.shift
        places: NDArray[np.intp] = np.add(leaves, self.offsets, dtype=np.intp, casting="unsafe")
        return places

    def sums(self, inputs: Array) -> Array:
        if not self.thresholds.of_feature:
            return np.full(len(inputs), self.constant)
        result = np.empty(len(inputs))
        for block, leaves in self.thresholds.combined(inputs, self.table, np.bitwise_and):
            result[block] = self.values.take(self._places(leaves)).dot(self.ones)
        return result
