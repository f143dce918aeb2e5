"""Convolution over depth (or time), height and width.

`in_size` speaks of height and width alone, for clips are rarely cubes.
"""

from __future__ import annotations

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.convolution import WINDOW_PARTS, Convolution, convolution_parameters
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.window import axis_shorthands


@layer_kinds.register
class Conv3d(Convolution, LayerKind):
    name = "conv3d"
    description = "convolution over depth or time, height and width"
    axes = ("d", "h", "w")
    module = "Conv3d"
    parameters = convolution_parameters(axes)
    shorthands = {**axis_shorthands(axes, *WINDOW_PARTS), "in_size": ("in_h", "in_w")}
    sweep = {
        "in_channels": log_range(3, 128),
        "out_channels": log_range(8, 128, multiple_of=8),
        "in_d": log_range(2, 16),
        "in_size": log_range(7, 56),
        "kernel_size": weighted({1: 0.3, 3: 0.7}),
        "stride": weighted({1: 0.8, 2: 0.2}),
        "same_padding": weighted({True: 0.9, False: 0.1}),
        "depthwise": weighted({False: 0.9, True: 0.1}),
        "bias": one_of(True, False),
    }
