"""An ensemble of decision trees: the sum of the leaves that an input falls into, whichever library grew them.

Inputs fit float32, so a threshold rounded down to float32 decides each of them as the library's own threshold does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medn.core.table import Array
from medn.regressors.form import Form, Parts, register_form

Tree = tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.int32]]
"""The nodes of one tree in preorder, so that a left child follows its parent: the feature asked for (-1 in a leaf), the
threshold (in a leaf: its value), and the place of the right child (0 in a leaf)."""

ROWS_AT_ONCE = 1024
"""Without onnxruntime, rows are walked down the trees in blocks that stay in the cache."""


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


@register_form
class Trees(Form):
    """`base` plus the leaf that each tree leads to."""

    form = "trees"

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
        return cls(np.concatenate(feature), np.concatenate(number), np.concatenate(right), roots, base, width)

    def log_latency(self, inputs: Array) -> Array:
        if self._session is None:
            return self.walk(inputs)
        (sums,) = self._session.run(None, {"inputs": inputs.astype(np.float32)})
        return np.asarray(self.base + sums[:, 0].astype(np.float64))

    def walk(self, inputs: Array) -> Array:
        """The same without onnxruntime, a level of all trees at a time."""
        sums = np.empty(len(inputs))
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            sums[start : start + ROWS_AT_ONCE] = self._walk(inputs[start : start + ROWS_AT_ONCE])
        return self.base + sums

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
        places = np.arange(len(self.feature))
        is_leaf = self.feature < 0
        start = np.repeat(self.roots, np.diff([*self.roots, len(self.feature)]))
        left = np.where(is_leaf, places, places + 1)
        right = np.where(is_leaf, places, start + self.right)
        return left, right, np.maximum(self.feature, 0), self.number

    @cached_property
    def _session(self) -> Any:
        """None where there is no onnxruntime. Made at the first prediction, so that loading stays fast."""
        if any(importlib.util.find_spec(package) is None for package in ("onnx", "onnxruntime")):
            return None
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self._onnx_model(), options, providers=["CPUExecutionProvider"])

    def _onnx_model(self) -> bytes:
        import onnx
        from onnx import helper

        left, right, feature, number = self._steps
        is_leaf = self.feature < 0
        sizes = np.diff([*self.roots, len(self.feature)])
        trees = np.repeat(np.arange(len(sizes)), sizes)
        start = np.repeat(self.roots, sizes)
        places = np.arange(len(self.feature)) - start
        node = helper.make_node(
            "TreeEnsembleRegressor",
            ["inputs"],
            ["sums"],
            domain="ai.onnx.ml",
            n_targets=1,
            nodes_treeids=trees.tolist(),
            nodes_nodeids=places.tolist(),
            nodes_featureids=feature.tolist(),
            nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
            nodes_values=np.where(is_leaf, 0, number).tolist(),
            nodes_truenodeids=np.where(is_leaf, 0, left - start).tolist(),
            nodes_falsenodeids=np.where(is_leaf, 0, right - start).tolist(),
            target_treeids=trees[is_leaf].tolist(),
            target_nodeids=places[is_leaf].tolist(),
            target_ids=[0] * int(is_leaf.sum()),
            target_weights=number[is_leaf].tolist(),
        )
        graph = helper.make_graph(
            [node],
            "trees",
            [helper.make_tensor_value_info("inputs", onnx.TensorProto.FLOAT, [None, self.width])],
            [helper.make_tensor_value_info("sums", onnx.TensorProto.FLOAT, [None, 1])],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        serialized: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        return serialized

    def parts(self) -> Parts:
        arrays = {name: getattr(self, name) for name in ("feature", "number", "right", "roots")}
        return Parts(self.form, {"base": self.base, "width": self.width}, arrays)

    @classmethod
    def from_parts(cls, parts: Parts) -> Trees:
        arrays, facts = parts.arrays, parts.facts
        nodes = arrays["feature"], arrays["number"], arrays["right"]
        return cls(*nodes, arrays["roots"], facts["base"], facts["width"])
