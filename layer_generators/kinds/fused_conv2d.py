"""Convolution over height and width with what compiled backends do to its result at once."""

from __future__ import annotations

from medn.layer_generators.fused import ENDINGS, ENDINGS_SWEEP, Fused
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.kinds.conv2d import Conv2d


@layer_kinds.register
class FusedConv2d(Fused, LayerKind):
    name = "fused_conv2d"
    description = "convolution with the residual and the activation after it, as compiled backends run them"
    head = Conv2d()
    parameters = (*head.parameters, *ENDINGS)
    shorthands = head.shorthands
    conveniences = head.conveniences
    sweep = {**head.sweep, **ENDINGS_SWEEP}
    tiled = head.tiled
