"""What OpenVINO runs as one, from the names that the operators of its compiled model keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from medn.devices.onnx_nodes import DataNodes

LAYOUT_TYPES = ("Const", "Input", "Output", "Reorder", "Reshape", "Transpose")
"""Operators that do none of the model's work."""
SUFFIX = "/WithoutBiases"
"""What OpenVINO adds to the name of a convolution."""
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
PRODUCT_TYPES = ("Convolution", "Deconvolution", "FullyConnected", "MatMul")
"""Products as nodes of a file, and as operators that run."""


def read_fused(content: bytes) -> tuple[tuple[str, ...], ...]:
    """The names of the nodes of an ONNX model in groups that run as one."""
    original = DataNodes(content)
    compiled = _Compiled(content, original)
    group_of = dict(compiled.operator_of)
    for node in original.nodes:
        if node.name not in group_of:
            before = next((group_of[each.name] for each in original.before(node) if each.name in group_of), None)
            if (operator := compiled.operator_for(node, before, original)) is not None:
                group_of[node.name] = operator
    groups: dict[str, list[str]] = {}
    for node in original.nodes:
        if node.name in group_of:
            groups.setdefault(group_of[node.name], []).append(node.name)
    return tuple(map(tuple, groups.values()))


class _Compiled:
    """The operators that really run, each known by its name."""

    def __init__(self, content: bytes, original: DataNodes) -> None:
        from medn.devices.backends.openvino import compiled_model

        operators = compiled_model((content,), 1, False).get_runtime_model().get_ordered_ops()
        self._before = {_name(each): [_name(slot.get_node()) for slot in each.input_values()] for each in operators}
        self._after: dict[str, list[str]] = {name: [] for name in self._before}
        for name, sources in self._before.items():
            for source in sources:
                self._after[source].append(name)
        self._types = {_name(each): _fact(each, "layerType") for each in operators}
        node_of = {tensor: node.name for tensor, node in original.producers.items()}
        node_of |= {name: name for name in original.by_name}
        self.operator_of: dict[str, str] = {}
        """The operator that names each node."""
        for operator in operators:
            for name in _fact(operator, "originalLayersNames").split(","):
                if name.removesuffix(SUFFIX) in node_of:
                    self.operator_of.setdefault(node_of[name.removesuffix(SUFFIX)], _name(operator))
        self._naming = set(self.operator_of.values())
        self._new = [
            name for name, type_ in self._types.items() if name not in self._naming and type_ not in LAYOUT_TYPES
        ]

    def operator_for(self, node: Any, before: str | None, original: DataNodes) -> str | None:
        """The operator of a node that none names, where `before` is the operator of the node before it."""
        behind = self._behind(node, original)
        if node.op_type in PRODUCTS:  # absorbed a factor and took its name
            return behind if self._is_product(behind) else self._replacement(node, original)
        replacement = self._replacement(node, original)
        if replacement is not None or self._is_product(before):  # the bias of a product, or a part of its activation
            return replacement or before
        return behind or before

    def _is_product(self, operator: str | None) -> bool:
        return operator is not None and self._types[operator] in PRODUCT_TYPES

    def _replacement(self, node: Any, original: DataNodes) -> str | None:
        """The operator with a new name that stands between the same neighbours as a node."""
        before, after = self._around(node, original.before, original), self._around(node, original.after, original)
        for operator in self._new:
            sources = _nearest(operator, self._before.__getitem__, self._naming)
            readers = _nearest(operator, self._after.__getitem__, self._naming)
            if _meet(before, sources) and _meet(after, readers):
                return operator
        return None

    def _behind(self, node: Any, original: DataNodes) -> str | None:
        """The one operator that the nodes behind this one run in: it took their name when it absorbed this one."""
        after = self._around(node, original.after, original)
        return after.pop() if len(after) == 1 else None

    def _around(self, node: Any, steps: Callable[[Any], list[Any]], original: DataNodes) -> set[str]:
        """The operators of the nearest nodes in one direction that are named by one."""
        names = _nearest(
            node.name, lambda name: [each.name for each in steps(original.by_name[name])], self.operator_of
        )
        return {self.operator_of[name] for name in names}


def _meet(left: set[str], right: set[str]) -> bool:
    """Whether two sides have a neighbour in common; at the ends of a model both have none."""
    return bool(left & right) or left == right


def _nearest(start: str, steps: Callable[[str], Iterable[str]], ends: Iterable[str]) -> set[str]:
    """Those of the names to end at that are reached by going on through others."""
    reached: set[str] = set()
    seen: set[str] = set()
    waiting = list(steps(start))
    while waiting:
        name = waiting.pop()
        if name in ends:
            reached.add(name)
        elif name not in seen:
            seen.add(name)
            waiting += steps(name)
    return reached


def _name(operator: Any) -> str:
    return str(operator.get_friendly_name())


def _fact(operator: Any, name: str) -> str:
    """What a compiled model tells of one of its operators."""
    facts = operator.get_rt_info()
    return str(facts[name].astype(str)) if name in facts else ""
