"""Layer normalisation: every row by its own mean and variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, Expression, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.onnx_node import normalised_rows
from medn.layer_generators.operation import Operation, Recognised, split_rows
from medn.layer_generators.row_layers import ROW_PARAMETERS, row_costs, row_shape

if TYPE_CHECKING:
    import torch

OPERATIONS_PER_ELEMENT = 8
"""Mean 1, variance 3, centre and divide 2, scale and shift 2."""


@layer_kinds.register
class LayerNorm(LayerKind):
    name = "layer_norm"
    description = "normalisation of each row"
    parameters = ROW_PARAMETERS
    sweep = {
        "features": log_range(32, 4096),
        "rows": weighted({1: 0.1, 64: 0.25, 197: 0.25, 512: 0.25, 1024: 0.15}),
    }
    tiled = ("features",)
    onnx_operators = {"LayerNormalization": normalised_rows("aten.native_layer_norm")}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.LayerNorm(values.features)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec(row_shape(values, batch_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return row_shape(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        parameter_bytes = 2 * values.features * element_bytes
        return row_costs(values, OPERATIONS_PER_ELEMENT, parameter_bytes, batch_size, element_bytes)

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        return topi.nn.layer_norm(inputs[0], *weights, [len(inputs[0].shape) - 1], 1e-5)

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("input")
        if operation.name != "aten.native_layer_norm" or source is None:
            return None
        normalised = len(operation.attributes["normalized_shape"])
        outer, inner = source[: len(source) - normalised], source[len(source) - normalised :]
        batch_size, rows, features = split_rows((*(outer or (1,)), math.prod(inner)))
        return Recognised({"features": features, "rows": rows}, batch_size)
