"""Root-mean-square normalisation: every row by its own size, without a mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, Expression, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.onnx_node import normalised_rows
from medn.layer_generators.operation import Operation, Recognised, split_rows
from medn.layer_generators.row_layers import ROW_PARAMETERS, row_costs, row_shape

if TYPE_CHECKING:
    import torch

OPERATIONS_PER_ELEMENT = 4
"""Square and add 2, divide 1, scale 1."""


@layer_kinds.register
class RmsNorm(LayerKind):
    name = "rms_norm"
    description = "root-mean-square normalisation of each row"
    parameters = ROW_PARAMETERS
    sweep = {
        "features": log_range(64, 8192),
        "rows": weighted({1: 0.3, 64: 0.3, 256: 0.2, 512: 0.2}),
    }
    tiled = ("features",)
    onnx_operators = {"RMSNormalization": normalised_rows("aten.rms_norm")}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.RMSNorm(values.features)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec(row_shape(values, batch_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return row_shape(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        parameter_bytes = values.features * element_bytes
        return row_costs(values, OPERATIONS_PER_ELEMENT, parameter_bytes, batch_size, element_bytes)

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        return topi.nn.rms_norm(inputs[0], weights[0], [len(inputs[0].shape) - 1], 2.0**-23)

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("input")
        if operation.name != "aten.rms_norm" or not source or len(operation.attributes["normalized_shape"]) != 1:
            return None
        batch_size, rows, features = split_rows(source)
        return Recognised({"features": features, "rows": rows}, batch_size)

    def recognise_module(self, module: torch.nn.Module, input_shapes: tuple[tuple[int, ...], ...]) -> Recognised | None:
        # Language models bring classes of their own for it; the name and the one weight vector tell them.
        weight = getattr(module, "weight", None)
        if not type(module).__name__.endswith("RMSNorm") or weight is None or weight.dim() != 1:
            return None
        batch_size, rows, features = split_rows(input_shapes[0])
        return Recognised({"features": features, "rows": rows}, batch_size) if features == len(weight) else None
