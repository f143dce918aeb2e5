"""A larger image from a smaller one, without parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medn.core.domains import log_range, one_of, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import (
    Column,
    Costs,
    LayerKind,
    TensorSpec,
    Values,
    by_name,
    choice,
    integer,
    layer_kinds,
    look_up,
)
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, by_axis, input_sizes

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")
OPERATIONS = {"nearest": 1, "bilinear": 9}
"""Per output element: one move, or three mixtures of two values each."""


def _resize(node: OnnxNode) -> Operation:
    modes = {"nearest": "nearest", "linear": "bilinear"}
    mode = modes.get(node.attributes.get("mode", "nearest"))
    return node.operation(f"aten.upsample_{mode}2d", {"self": node.shape(0)})


@layer_kinds.register
class Upsample(LayerKind):
    name = "upsample"
    description = "a larger image from a smaller one"
    parameters = (
        choice("mode", "how values between pixels are found", tuple(OPERATIONS), default="nearest"),
        integer("channels", "channels of input and output", 1, 65_536),
        *input_sizes(AXES),
        *(integer(f"out_{axis}", f"size of the output along {axis}", 1, 65_536) for axis in AXES),
    )
    shorthands = axis_shorthands(AXES, "in", "out")
    conveniences = by_name(integer("scale_factor", "how many times larger the output is along each axis", 1, 64))
    sweep = {
        "mode": one_of(*OPERATIONS),
        "channels": log_range(8, 512),
        "in_size": log_range(4, 64),
        "scale_factor": weighted({2: 0.8, 4: 0.15, 8: 0.05}),
    }
    tiled = ("channels", "in_w")
    onnx_operators = {"Resize": _resize, "Upsample": _resize}

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        if "scale_factor" not in given:
            return given, []
        opened = dict(given)
        factor: Any = opened.pop("scale_factor")
        sizes: dict[str, Scalar] = {
            f"out_{axis}": given[f"in_{axis}"] * factor for axis in AXES if f"in_{axis}" in given
        }
        twice = [f"scale_factor: {name} is given too; give one of the two" for name in sizes if name in given]
        return opened | sizes, twice

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.Upsample(size=(values.out_h, values.out_w), mode=values.mode)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.channels, values.in_h, values.in_w)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, values.out_h, values.out_w)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        planes = batch_size * values.channels
        written = planes * values.out_h * values.out_w
        return Costs(
            flops=look_up(OPERATIONS, values.mode) * written,
            input_bytes=planes * values.in_h * values.in_w * element_bytes,
            output_bytes=written * element_bytes,
            more={"planes": planes},
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        modes = {f"aten.upsample_{mode}2d": mode for mode in OPERATIONS}
        source = operation.shape("self") or operation.shape("input")
        if operation.name not in modes or source is None or len(source) != 4:
            return None
        parameters = {
            "mode": modes[operation.name],
            "channels": source[1],
            **by_axis("in", AXES, source[2:]),
            **by_axis("out", AXES, operation.output[2:]),
        }
        return Recognised(parameters, batch_size=source[0])
