"""Convolution over one axis, as in audio and text networks."""

from __future__ import annotations

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.convolution import WINDOW_PARTS, Convolution, convolution_parameters
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.window import axis_shorthands


@layer_kinds.register
class Conv1d(Convolution, LayerKind):
    name = "conv1d"
    description = "convolution over one axis"
    axes = ("length",)
    module = "Conv1d"
    parameters = convolution_parameters(axes)
    shorthands = axis_shorthands(axes, "in", *WINDOW_PARTS)
    sweep = {
        "in_channels": log_range(8, 512, multiple_of=8),
        "out_channels": log_range(8, 512, multiple_of=8),
        "in_size": log_range(16, 4096),
        "kernel_size": weighted({1: 0.2, 3: 0.4, 5: 0.15, 7: 0.1, 9: 0.1, 31: 0.05}),
        "stride": weighted({1: 0.75, 2: 0.2, 4: 0.05}),
        "dilation": weighted({1: 0.8, 2: 0.1, 4: 0.1}),
        "same_padding": weighted({True: 0.9, False: 0.1}),
        "depthwise": weighted({False: 0.8, True: 0.2}),
        "bias": one_of(True, False),
    }
