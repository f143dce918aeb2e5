"""Group normalisation: every group of channels by its own mean and variance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, input_sizes

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")
OPERATIONS_PER_ELEMENT = 8
"""Mean 1, variance 3, centre and divide 2, scale and shift 2."""


def _group_norm(node: OnnxNode) -> Operation:
    source = node.shape(0) or ()
    return node.operation(
        "aten.native_group_norm", {"input": source}, group=node.attributes.get("num_groups", source[1])
    )


@layer_kinds.register
class GroupNorm(LayerKind):
    name = "group_norm"
    description = "normalisation of groups of channels"
    parameters = (
        integer("channels", "channels of input and output", 1, 65_536),
        integer("groups", "groups with statistics of their own", 1, 65_536),
        *input_sizes(AXES),
    )
    shorthands = axis_shorthands(AXES, "in")
    sweep = {
        "channels": log_range(32, 1024, multiple_of=32),
        "groups": weighted({1: 0.1, 8: 0.2, 16: 0.2, 32: 0.5}),
        "in_size": log_range(4, 80),
    }
    tiled = ("channels", "in_w")
    onnx_operators = dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _group_norm)

    def rules(self, values: Values) -> Iterator[str]:
        if values.channels % values.groups:
            yield f"groups: must divide channels={values.channels} (got {values.groups})"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.GroupNorm(values.groups, values.channels)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.output_shape(values, batch_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, values.in_h, values.in_w)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        elements = batch_size * values.channels * values.in_h * values.in_w
        return Costs(
            flops=OPERATIONS_PER_ELEMENT * elements,
            input_bytes=elements * element_bytes,
            output_bytes=elements * element_bytes,
            parameter_bytes=2 * values.channels * element_bytes,
            more={"elements": elements, "group_elements": values.channels // values.groups * values.in_h * values.in_w},
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("input")
        if operation.name != "aten.native_group_norm" or source is None or len(source) < 2:
            return None
        height, width = (source[2], math.prod(source[3:])) if len(source) > 2 else (1, 1)
        parameters = {"channels": source[1], "groups": operation.attributes["group"], "in_h": height, "in_w": width}
        return Recognised(parameters, batch_size=source[0])
