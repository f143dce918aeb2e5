"""Arithmetic of two tensors, element by element, with the ways of broadcasting that real networks use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    LayerKind,
    TensorSpec,
    Values,
    choice,
    integer,
    layer_kinds,
    look_up,
)
from medn.layer_generators.onnx_node import OnnxNode, OnnxTranslator, one_tensor
from medn.layer_generators.operation import Operation, Recognised, Shape, split_batch

if TYPE_CHECKING:
    import torch

OPERATIONS = ("add", "sub", "mul", "div")

ALIKE = {"neg": "mul", "rsub": "sub"}
"""Operators that cost what one of the operations with a number does."""
QUICK_POWERS = (2, 3)
"""Squares and cubes are products too; other powers take a logarithm and an exponential."""

BROADCASTS = {
    "none": (1, 1, 1),
    "per_row": (1, 1, 0),
    "per_column": (0, 0, 1),
    "batch": (0, 1, 1),
    "scalar": (0, 0, 0),
}
"""Which axes (batch, rows, columns) the second tensor has of its own.

none: a residual connection; per_row: a squeeze-excite gate for each channel; per_column: a bias or layer scale;
batch: position embeddings, the same for every batch entry; scalar: a scale factor.
"""


def _held(broadcast: Column, size: Column, axis: int) -> Column:
    """The second tensor's size along an axis: all of it, or 1 where it is broadcast."""
    held = look_up({name: axes[axis] for name, axes in BROADCASTS.items()}, broadcast)
    return 1 + held * (size - 1)


def _arithmetic(name: str) -> OnnxTranslator:
    return lambda node: node.operation(f"aten.{name}", {"self": node.shape(0), "other": node.shape(1)})


def _power(node: OnnxNode) -> Operation | None:
    exponent = node.value(1)
    if exponent is None or exponent.size != 1:
        return None
    return node.operation("aten.pow", {"self": node.shape(0)}, exponent=exponent.item())


@layer_kinds.register
class Elementwise(LayerKind):
    name = "elementwise"
    description = "arithmetic of two tensors, element by element"
    parameters = (
        choice("operation", "what is done with two elements", OPERATIONS),
        integer("rows", "rows of each batch entry; the channels of an image", 1, 67_108_864, default=1),
        integer("columns", "size of a row; the pixels of a channel", 1, 67_108_864),
        choice("broadcast", "how the second tensor is spread over the first", tuple(BROADCASTS), default="none"),
    )
    sweep = {
        "operation": weighted({"add": 0.5, "mul": 0.4, "sub": 0.05, "div": 0.05}),
        "rows": log_range(1, 1024),
        "columns": log_range(16, 4096),
        "broadcast": weighted({"none": 0.5, "per_row": 0.2, "per_column": 0.15, "batch": 0.1, "scalar": 0.05}),
    }
    tiled = ("columns",)
    onnx_operators = {
        **{name.capitalize(): _arithmetic(name) for name in OPERATIONS},
        "Neg": one_tensor("aten.neg"),
        "Pow": _power,
    }

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        function = getattr(torch, values.operation)

        class Arithmetic(torch.nn.Module):
            def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
                result: torch.Tensor = function(left, right)
                return result

        return Arithmetic()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        shape = self.output_shape(values, batch_size)
        second = tuple(_held(values.broadcast, size, axis) for axis, size in enumerate(shape))
        return (TensorSpec(shape), TensorSpec(second))

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.rows, values.columns)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        sizes = (batch_size, values.rows, values.columns)
        elements = math.prod(sizes[1:], start=sizes[0])
        second = [_held(values.broadcast, size, axis) for axis, size in enumerate(sizes)]
        return Costs(
            flops=elements,
            input_bytes=(elements + second[0] * second[1] * second[2]) * element_bytes,
            output_bytes=elements * element_bytes,
            more={"all_elements": elements},
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        names = {"sub": "subtract", "mul": "multiply", "div": "divide"}
        return getattr(topi, names.get(values.operation, values.operation))(*inputs)

    def recognise(self, operation: Operation) -> Recognised | None:
        name = _operation_name(operation)
        left = operation.shape("self")
        if name not in OPERATIONS or left is None:
            return None
        right = operation.shape("other") or ()
        full, held = (left, right) if math.prod(left) >= math.prod(right) else (right, left)
        if not math.prod(full) == math.prod(operation.output) > 0:
            return None
        broadcast, split = _pattern(full, (1,) * (len(full) - len(held)) + held)
        batch_size, elements = split_batch(full)
        columns = math.prod(full[split:])
        parameters: dict[str, Scalar] = {
            "operation": name,
            "rows": elements // columns,
            "columns": columns,
            "broadcast": broadcast,
        }
        return Recognised(parameters, batch_size)


def _operation_name(operation: Operation) -> str:
    name = operation.plain_name.removeprefix("aten.")
    if name == "pow" and operation.attributes.get("exponent") in QUICK_POWERS:
        return "mul"
    return ALIKE.get(name, name)


def _pattern(full: Shape, held: Shape) -> tuple[str, int]:
    """The way of broadcasting, and the axis at which columns start. Rarer ways are taken for the one most alike."""
    last = len(full) - 1
    usual = min(2, last)  # the pixels of an image, the features of a token
    own = [axis for axis, size in enumerate(held) if size > 1]
    if held == full:
        return "none", usual
    if not own:
        return "scalar", usual
    if own[-1] < last:
        return "per_row", own[-1] + 1
    start = last
    while start > 1 and held[start - 1] == full[start - 1]:
        start -= 1
    return ("batch", usual) if start <= 1 and 0 not in own else ("per_column", start)
