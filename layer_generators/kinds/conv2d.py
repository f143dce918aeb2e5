"""Convolution over height and width, grouped and depthwise included."""

from __future__ import annotations

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.convolution import WINDOW_PARTS, Convolution, convolution_parameters
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.window import axis_shorthands


@layer_kinds.register
class Conv2d(Convolution, LayerKind):
    name = "conv2d"
    description = "convolution over height and width"
    axes = ("h", "w")
    module = "Conv2d"
    parameters = convolution_parameters(axes)
    shorthands = axis_shorthands(axes, "in", *WINDOW_PARTS)
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
