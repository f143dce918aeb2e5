"""Copies of a tensor with its axes in another order: what a transposed view costs once it must be contiguous."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import (
    Operation,
    Recognised,
    Shape,
    contiguous_strides,
    split_batch,
    unfold_batch,
)

if TYPE_CHECKING:
    import torch


def _transpose(node: OnnxNode) -> Operation:
    """A view in torch; runtimes of ONNX copy it, as torch does to make the view contiguous."""
    source = node.shape(0) or ()
    order = node.attributes.get("perm", range(len(source))[::-1])
    strides = contiguous_strides(source)
    return replace(
        node.operation("aten.clone", {"self": node.output}),
        strides={"self": tuple(strides[axis] for axis in order)},
        output_strides=contiguous_strides(node.output),
    )


@layer_kinds.register
class Copy(LayerKind):
    name = "copy"
    description = "copy of a tensor with two of its axes swapped"
    parameters = (
        integer("outer", "matrices of each batch entry", 1, 16_777_216, default=1),
        integer(
            "rows", "rows of each matrix, the columns of its copy; 1 with columns=1 is a plain copy", 1, 16_777_216
        ),
        integer("columns", "columns of each matrix, the rows of its copy", 1, 16_777_216),
        integer("inner", "elements that stay together at each place of the matrix", 1, 268_435_456, default=1),
    )
    sweep = {
        "outer": weighted({1: 0.5, 4: 0.15, 8: 0.15, 64: 0.2}),
        "rows": log_range(2, 1024),
        "columns": log_range(2, 256),
        "inner": weighted({1: 0.3, 2: 0.1, 32: 0.2, 64: 0.25, 384: 0.15}),
    }
    tiled = ("rows", "columns", "inner")
    onnx_operators = {"Transpose": _transpose}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        class SwappedCopy(torch.nn.Module):
            def forward(self, tensor: torch.Tensor) -> torch.Tensor:
                # Unlike `contiguous`, it copies even what already is.
                return tensor.transpose(2, 3).clone(memory_format=torch.contiguous_format)

        return SwappedCopy()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.outer, values.rows, values.columns, values.inner)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.outer, values.columns, values.rows, values.inner)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        matrices = batch_size * values.outer
        blocks = matrices * values.rows * values.columns
        elements = blocks * values.inner
        return Costs(
            flops=elements,  # each move counts as one operation, so that no layer is without work
            input_bytes=elements * element_bytes,
            output_bytes=elements * element_bytes,
            more={
                "matrices": matrices,
                "blocks": blocks,
                "block_bytes": values.inner * element_bytes,
                "row_bytes": values.columns * values.inner * element_bytes,
                "matrix_bytes": values.rows * values.columns * values.inner * element_bytes,
            },
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        copied = _copied(operation)
        if copied is None:
            return None
        shape, strides = copied
        spread = any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))
        if spread or not math.prod(shape):
            return None  # a broadcast tensor reads less than it writes
        outer, rows, columns, inner = swapped_axes(shape, strides, operation.output_strides)
        if rows == 1:
            batch_size, inner = split_batch(shape)
        else:
            batch_size, outer = unfold_batch(outer, operation)
        return Recognised({"outer": outer, "rows": rows, "columns": columns, "inner": inner}, batch_size)


def _copied(operation: Operation) -> tuple[Shape, Shape] | None:
    """Shape and strides of what an operation only copies."""
    shape = operation.shape("self")
    if operation.name == "aten.clone" and shape is not None:
        return shape, operation.strides["self"]
    if operation.name == "aten.cat":
        shapes = operation.shapes("tensors")
        filled = [index for index, each in enumerate(shapes) if math.prod(each)]
        if len(filled) == 1:  # joined to nothing, as the first keys and values of a cache are
            return shapes[filled[0]], operation.strides["tensors"][filled[0]]
    return None


def swapped_axes(shape: Shape, source: Shape, target: Shape) -> tuple[int, int, int, int]:
    """The sizes (outer, rows, columns, inner) of a copy, from the strides of both sides.

    Gaps in the source do not matter, nor do axes of size 1; axes that stay neighbours are one. Where more than two
    parts change places, the one that leaves the end is swapped with all others.

    >>> swapped_axes((2, 6, 5, 8), (240, 8, 48, 1), (240, 40, 8, 1))
    (2, 5, 6, 8)
    """
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    before = sorted(axes, key=lambda axis: -source[axis])
    after = sorted(axes, key=lambda axis: -target[axis])
    places = [before.index(axis) for axis in after]
    # Neighbours on both sides have places that count up together.
    runs = [[place for _, place in run] for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    sizes = {run[0]: math.prod(shape[before[place]] for place in run) for run in runs}
    order = list(sizes)
    outer = sizes[order.pop(0)] if order and order[0] == 0 and len(order) > 1 else 1
    inner = sizes[order.pop()] if order and order[-1] == max(order) else 1
    if not order:
        return outer, 1, 1, inner
    columns = sizes[max(order)]
    return outer, math.prod(sizes[place] for place in order) // columns, columns, inner
