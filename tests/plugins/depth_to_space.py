"""A layer kind of one's own with its ONNX operator, all in one file: channels rearranged into a larger image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised

if TYPE_CHECKING:
    import torch


def _depth_to_space(node: OnnxNode) -> Operation | None:
    if node.attributes.get("mode", "DCR") != "CRD":  # torch knows this order alone
        return None
    return node.operation("aten.pixel_shuffle", {"self": node.shape(0)}, upscale_factor=node.attributes["blocksize"])


@layer_kinds.register
class DepthToSpace(LayerKind):
    name = "test_depth_to_space"
    description = "channels rearranged into a larger image"
    parameters = (
        integer("channels", "channels of the output", 1, 65_536),
        integer("in_size", "height and width of the input", 1, 65_536),
        integer("factor", "how much larger the output is, each way", 1, 16, default=2),
    )
    sweep = {"channels": log_range(1, 64), "in_size": log_range(8, 128), "factor": one_of(2, 3, 4)}
    onnx_operators = {"DepthToSpace": _depth_to_space}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.PixelShuffle(values.factor)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.channels * values.factor**2, values.in_size, values.in_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, values.in_size * values.factor, values.in_size * values.factor)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        moved = batch_size * values.channels * values.factor**2 * values.in_size**2
        return Costs(flops=moved, input_bytes=moved * element_bytes, output_bytes=moved * element_bytes)

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("self")
        if operation.name != "aten.pixel_shuffle" or source is None or source[2] != source[3]:
            return None
        factor = operation.attributes["upscale_factor"]
        return Recognised({"channels": source[1] // factor**2, "in_size": source[2], "factor": factor}, source[0])
