"""Batch normalisation of images, with the statistics it learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.core.domains import log_range
from medn.layer_generators.kind import Column, Costs, Expression, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, by_axis, input_sizes

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")
OPERATORS = ("aten.native_batch_norm", "aten._native_batch_norm_legit_no_training", "aten.cudnn_batch_norm")


def _batch_norm(node: OnnxNode) -> Operation:
    return node.operation("aten._native_batch_norm_legit_no_training", {"input": node.shape(0)})


@layer_kinds.register
class BatchNorm2d(LayerKind):
    name = "batch_norm2d"
    description = "batch normalisation with learned statistics"
    parameters = (integer("channels", "channels, each with statistics of its own", 1, 65_536), *input_sizes(AXES))
    shorthands = axis_shorthands(AXES, "in")
    sweep = {"channels": log_range(8, 1024), "in_size": log_range(4, 112)}
    tiled = ("channels", "in_w")
    onnx_operators = {"BatchNormalization": _batch_norm}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.BatchNorm2d(values.channels)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.output_shape(values, batch_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, values.in_h, values.in_w)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        elements = batch_size * values.channels * values.in_h * values.in_w
        return Costs(
            flops=2 * elements,  # one multiplication and one addition
            input_bytes=elements * element_bytes,
            output_bytes=elements * element_bytes,
            parameter_bytes=4 * values.channels * element_bytes,  # scale, shift, running mean and running variance
            more={"elements": elements},
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import te

        source, (scale, shift, mean, variance) = inputs[0], weights
        return te.compute(
            source.shape,
            lambda n, c, h, w: (source[n, c, h, w] - mean[c]) / te.sqrt(variance[c] + 1e-5) * scale[c] + shift[c],
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("input")
        if operation.name not in OPERATORS or source is None or len(source) != 4:
            return None
        return Recognised({"channels": source[1], **by_axis("in", AXES, source[2:])}, batch_size=source[0])
