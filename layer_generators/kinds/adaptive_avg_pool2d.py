"""Average over height and width down to a fixed size; 1 x 1 is the usual end of an image network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range, weighted
from medn.layer_generators.kind import Column, Costs, Expression, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, by_axis, input_sizes

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")


def _mean(node: OnnxNode) -> Operation | None:
    axes = node.attributes.get("axes", node.value(1))
    axes = (2, 3) if node.operator == "GlobalAveragePool" else axes
    return None if axes is None else node.operation("aten.mean", {"self": node.shape(0)}, dim=tuple(map(int, axes)))


@layer_kinds.register
class AdaptiveAvgPool2d(LayerKind):
    name = "adaptive_avg_pool2d"
    description = "average over height and width down to a fixed size"
    parameters = (
        integer("channels", "channels of input and output", 1, 65_536),
        *input_sizes(AXES),
        *(integer(f"out_{axis}", f"size of the output along {axis}", 1, 1024, default=1) for axis in AXES),
    )
    shorthands = axis_shorthands(AXES, "in", "out")
    sweep = {
        "channels": log_range(8, 2048),
        "in_size": log_range(4, 112),
        "out_size": weighted({1: 0.8, 2: 0.05, 3: 0.05, 6: 0.05, 7: 0.05}),
    }
    tiled = ("channels", "in_w")
    onnx_operators = {"GlobalAveragePool": _mean, "ReduceMean": _mean}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.AdaptiveAvgPool2d((values.out_h, values.out_w))

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.channels, values.in_h, values.in_w)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, values.out_h, values.out_w)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        planes = batch_size * values.channels
        read, written = planes * values.in_h * values.in_w, planes * values.out_h * values.out_w
        return Costs(
            # One addition for each element read, one division for each written.
            flops=read + written,
            input_bytes=read * element_bytes,
            output_bytes=written * element_bytes,
            more={"planes": planes},
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        return topi.nn.adaptive_pool(inputs[0], (values.out_h, values.out_w), "avg")

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("self")
        if source is None or len(source) != 4:
            return None
        if operation.name in ("aten._adaptive_avg_pool2d", "aten.adaptive_avg_pool2d"):
            out_sizes = tuple(operation.attributes["output_size"])
        elif operation.name == "aten.mean" and {axis % 4 for axis in operation.attributes.get("dim") or ()} == {2, 3}:
            out_sizes = (1, 1)
        else:
            return None
        parameters = {"channels": source[1], **by_axis("in", AXES, source[2:]), **by_axis("out", AXES, out_sizes)}
        return Recognised(parameters, batch_size=source[0])
