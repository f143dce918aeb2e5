"""Fully connected layer, over one row per batch entry or over a sequence of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.expressions import plus_bias, row_products
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    LayerKind,
    Product,
    TensorSpec,
    Values,
    flag,
    integer,
    layer_kinds,
)
from medn.layer_generators.onnx_node import MATRIX_PRODUCTS, OnnxNode, multiplied
from medn.layer_generators.operation import Operation, Recognised, unfold_batch

if TYPE_CHECKING:
    import torch


def _gemm(node: OnnxNode) -> Operation | None:
    left, right = node.shape(0), node.shape(1)
    if left is None or right is None:
        return None
    rows = left[::-1] if node.attributes.get("transA") else left
    weight = right[::-1] if node.attributes.get("transB") else right
    if node.shape(2) is None:
        return node.operation("aten.mm", {"self": rows, "mat2": weight})
    return node.operation("aten.addmm", {"mat1": rows, "mat2": weight})


def _product_with_one_matrix(node: OnnxNode) -> Operation | None:
    sides = multiplied(node)
    if sides is None or len(sides[1]) != 2:
        return None
    left, right = sides
    return node.operation("aten.mm", {"self": (math.prod(left[:-1]), left[-1]), "mat2": right})


@layer_kinds.register
class Linear(LayerKind):
    name = "linear"
    description = "fully connected layer, over one row or a sequence of rows"
    parameters = (
        integer("in_features", "size of a row of the input", 1, 262_144),
        integer("out_features", "size of a row of the output", 1, 262_144),
        integer("rows", "rows of each batch entry, such as the tokens of a sequence", 1, 1_048_576, default=1),
        flag("bias", "a value added to each output feature", default=True),
    )
    sweep = {
        "in_features": log_range(16, 4096),
        "out_features": log_range(10, 4096),
        "rows": weighted({1: 0.5, 64: 0.2, 197: 0.15, 512: 0.15}),
        "bias": one_of(True, False),
    }
    tiled = ("in_features", "out_features")
    onnx_operators = {"Gemm": _gemm, **dict.fromkeys(MATRIX_PRODUCTS, _product_with_one_matrix)}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.Linear(values.in_features, values.out_features, bias=values.bias)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        rows = () if values.rows == 1 else (values.rows,)
        return (TensorSpec((batch_size, *rows, values.in_features)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (*self.inputs(values, batch_size)[0].shape[:-1], values.out_features)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        rows = batch_size * values.rows
        return Costs(
            flops=2 * rows * values.in_features * values.out_features,
            input_bytes=rows * values.in_features * element_bytes,
            output_bytes=rows * values.out_features * element_bytes,
            parameter_bytes=(values.in_features + values.bias) * values.out_features * element_bytes,
            more={"matrix_rows": rows},
            product=Product(1, rows, values.in_features, values.out_features),
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        return plus_bias(row_products(inputs[0], weights[0], "linear"), weights, axis=-1)

    def recognise(self, operation: Operation) -> Recognised | None:
        if operation.name == "aten.addmm":
            rows, weight, bias = operation.shape("mat1"), operation.shape("mat2"), True
        elif operation.name == "aten.mm":
            rows, weight, bias = operation.shape("self"), operation.shape("mat2"), False
        else:
            return None
        if rows is None or weight is None:
            return None
        batch_size, rows_each = unfold_batch(rows[0], operation)
        parameters = {"in_features": weight[0], "out_features": weight[1], "rows": rows_each, "bias": bias}
        return Recognised(parameters, batch_size)
