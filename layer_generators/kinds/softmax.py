"""Softmax over the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, Expression, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised, split_rows
from medn.layer_generators.row_layers import ROW_PARAMETERS, row_costs, row_shape

if TYPE_CHECKING:
    import torch

OPERATIONS_PER_ELEMENT = 5
"""Maximum, subtract, exponential, sum, divide."""


def _softmax(node: OnnxNode) -> Operation:
    return node.operation("aten._softmax", {"self": node.shape(0)}, dim=node.attributes.get("axis", -1))


@layer_kinds.register
class Softmax(LayerKind):
    name = "softmax"
    description = "softmax of each row"
    parameters = ROW_PARAMETERS
    sweep = {
        "features": log_range(10, 4096),
        "rows": weighted({1: 0.2, 64: 0.2, 197: 0.2, 768: 0.2, 2048: 0.2}),
    }
    tiled = ("features",)
    onnx_operators = {"Softmax": _softmax}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.Softmax(dim=-1)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec(row_shape(values, batch_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return row_shape(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return row_costs(values, OPERATIONS_PER_ELEMENT, 0, batch_size, element_bytes)

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        return topi.nn.softmax(inputs[0], axis=-1)

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("self")
        if operation.name not in ("aten._softmax", "aten._safe_softmax") or not source:
            return None
        if operation.attributes["dim"] % len(source) != len(source) - 1:
            return None
        batch_size, rows, features = split_rows(source)
        return Recognised({"features": features, "rows": rows}, batch_size)
