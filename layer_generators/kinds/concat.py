"""Concatenation of two or more tensors along their channels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised, contiguous_strides
from medn.layer_generators.window import axis_shorthands, input_sizes

if TYPE_CHECKING:
    import torch


def _concat(node: OnnxNode) -> Operation:
    shapes = tuple(shape for shape in node.shapes if shape is not None)
    return replace(
        node.operation("aten.cat", {"tensors": shapes}, dim=node.attributes["axis"]),
        strides={"tensors": tuple(map(contiguous_strides, shapes))},
        output_strides=contiguous_strides(node.output),
    )


@layer_kinds.register
class Concat(LayerKind):
    name = "concat"
    description = "concatenation along the channels"
    parameters = (
        integer("inputs", "how many tensors are joined", 2, 256, default=2),
        integer("first_channels", "channels of the first tensor", 1, 1_048_576),
        integer("other_channels", "channels of each further tensor", 1, 1_048_576),
        *input_sizes(("h", "w")),
    )
    shorthands = {"channels": ("first_channels", "other_channels"), **axis_shorthands(("h", "w"), "in")}
    sweep = {
        "inputs": weighted({2: 0.6, 3: 0.1, 4: 0.2, 8: 0.1}),
        "first_channels": log_range(8, 512),
        "other_channels": log_range(8, 256),
        "in_size": log_range(4, 112),
    }
    onnx_operators = {"Concat": _concat}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        class Concatenation(torch.nn.Module):
            def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
                return torch.cat(tensors, dim=1)

        return Concatenation()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        first = TensorSpec((batch_size, values.first_channels, values.in_h, values.in_w))
        other = TensorSpec((batch_size, values.other_channels, values.in_h, values.in_w))
        return (first, *[other] * (values.inputs - 1))

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        channels = values.first_channels + (values.inputs - 1) * values.other_channels
        return (batch_size, channels, values.in_h, values.in_w)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        channels = values.first_channels + (values.inputs - 1) * values.other_channels
        elements = batch_size * channels * values.in_h * values.in_w
        return Costs(
            flops=elements,  # each move counts as one operation, so that no layer is without work
            input_bytes=elements * element_bytes,
            output_bytes=elements * element_bytes,
            more={"out_channels": channels, "copies": batch_size * values.inputs},
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        shapes = [shape for shape in operation.shapes("tensors") if math.prod(shape)]
        if operation.name not in ("aten.cat", "aten.stack") or len(shapes) < 2:
            return None
        if operation.name == "aten.stack":  # joins along an axis of its own
            axis = operation.attributes.get("dim", 0) % (len(shapes[0]) + 1)
            shapes = [(*shape[:axis], 1, *shape[axis:]) for shape in shapes]
        else:
            axis = operation.attributes["dim"] % len(shapes[0])
        channels = [shape[axis] for shape in shapes]
        # Further tensors of unequal size are taken for equal ones; what does not divide is added to the first.
        other = max(1, sum(channels[1:]) // (len(shapes) - 1))
        inside = shapes[0][axis + 1 :]
        parameters = {
            "inputs": len(shapes),
            "first_channels": sum(channels) - other * (len(shapes) - 1),
            "other_channels": other,
            "in_h": inside[0] if inside else 1,
            "in_w": math.prod(inside[1:]),
        }
        # Axes in front of the joined one only repeat the work, whether they hold the batch or more.
        return Recognised(parameters, batch_size=math.prod(shapes[0][:axis]))
