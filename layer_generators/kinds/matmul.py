"""Product of matrices that are both computed by the network, one or more pairs per batch entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    LayerKind,
    Product,
    TensorSpec,
    Values,
    integer,
    layer_kinds,
)
from medn.layer_generators.onnx_node import MATRIX_PRODUCTS, OnnxNode, multiplied
from medn.layer_generators.operation import Operation, Recognised, unfold_batch

if TYPE_CHECKING:
    import torch


def _product_of_pairs(node: OnnxNode) -> Operation | None:
    sides = multiplied(node)
    if sides is None or len(sides[1]) == 2:
        return None  # one matrix for all rows: a linear layer
    left, right = sides
    pairs = math.prod(node.output) // (left[-2] * right[-1])
    return node.operation("aten.bmm", {"self": (pairs, *left[-2:]), "mat2": (pairs, *right[-2:])})


@layer_kinds.register
class MatMul(LayerKind):
    name = "matmul"
    description = "batched product of two computed matrices"
    parameters = (
        integer(
            "matrices", "pairs of matrices of each batch entry, such as the heads of attention", 1, 65_536, default=1
        ),
        integer("rows", "rows of the left matrix", 1, 1_048_576),
        integer("inner", "columns of the left matrix and rows of the right one", 1, 1_048_576),
        integer("columns", "columns of the right matrix", 1, 1_048_576),
    )
    sweep = {
        "matrices": weighted({1: 0.4, 4: 0.1, 8: 0.2, 12: 0.2, 16: 0.1}),
        "rows": log_range(1, 512),
        "inner": log_range(16, 512),
        "columns": log_range(16, 512),
    }
    tiled = ("rows", "inner", "columns")
    onnx_operators = dict.fromkeys(MATRIX_PRODUCTS, _product_of_pairs)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        class BatchedProduct(torch.nn.Module):
            def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
                return torch.bmm(left, right)

        return BatchedProduct()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        pairs = batch_size * values.matrices
        return (TensorSpec((pairs, values.rows, values.inner)), TensorSpec((pairs, values.inner, values.columns)))

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size * values.matrices, values.rows, values.columns)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        pairs = batch_size * values.matrices
        return Costs(
            flops=2 * pairs * values.rows * values.inner * values.columns,
            input_bytes=pairs * (values.rows + values.columns) * values.inner * element_bytes,
            output_bytes=pairs * values.rows * values.columns * element_bytes,
            more={"pairs": pairs},
            product=Product(pairs, values.rows, values.inner, values.columns),
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import te

        left, right = inputs
        inner = te.reduce_axis((0, values.inner), name="inner")
        shape = (left.shape[0], values.rows, values.columns)
        return te.compute(
            shape, lambda pair, row, column: te.sum(left[pair, row, inner] * right[pair, inner, column], axis=inner)
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        names = {"aten.bmm": ("self", "mat2"), "aten.baddbmm": ("batch1", "batch2")}.get(operation.name)
        if names is None:
            return None
        left, right = (operation.shape(name) for name in names)
        if left is None or right is None:
            return None
        batch_size, matrices = unfold_batch(left[0], operation)
        parameters = {"matrices": matrices, "rows": left[1], "inner": left[2], "columns": right[2]}
        return Recognised(parameters, batch_size)
