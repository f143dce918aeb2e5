"""Convolution over height and width, grouped and depthwise included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.core.values import Scalar
from medn.layer_generators.convolution import (
    CONVENIENCES,
    WINDOW_PARTS,
    build_convolution,
    convolution_costs,
    convolution_input,
    convolution_output,
    convolution_parameters,
    convolution_rules,
    open_conveniences,
    recognise_convolution,
)
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, window_counts

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")


@layer_kinds.register
class Conv2d(LayerKind):
    name = "conv2d"
    description = "convolution over height and width"
    parameters = convolution_parameters(AXES)
    shorthands = axis_shorthands(AXES, "in", *WINDOW_PARTS)
    conveniences = CONVENIENCES
    sweep = {
        "in_channels": log_range(3, 512),
        "out_channels": log_range(8, 512, multiple_of=4),
        "in_size": log_range(7, 112),
        "kernel_size": weighted({1: 0.4, 3: 0.4, 5: 0.12, 7: 0.08}),
        "stride": weighted({1: 0.8, 2: 0.2}),
        "dilation": weighted({1: 0.95, 2: 0.05}),
        "same_padding": weighted({True: 0.9, False: 0.1}),
        "depthwise": weighted({False: 0.75, True: 0.25}),
        "bias": one_of(True, False),
    }
    tiled = ("in_channels", "out_channels")

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        return open_conveniences(given, AXES)

    def rules(self, values: Values) -> Iterator[str]:
        return convolution_rules(values, AXES)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return build_convolution(values, AXES, torch.nn.Conv2d)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return convolution_input(values, AXES, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return convolution_output(values, AXES, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return convolution_costs(values, AXES, window_counts(values, AXES), batch_size, element_bytes)

    def recognise(self, operation: Operation) -> Recognised | None:
        return recognise_convolution(operation, AXES, transposed=False)
