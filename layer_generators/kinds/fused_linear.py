"""Fully connected layer with what compiled backends do to its result at once."""

from __future__ import annotations

from medn.layer_generators.fused import ENDINGS, ENDINGS_SWEEP, Fused
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.kinds.linear import Linear


@layer_kinds.register
class FusedLinear(Fused, LayerKind):
    name = "fused_linear"
    description = "fully connected layer with the residual and the activation after it, as compiled backends run them"
    head = Linear()
    parameters = (*head.parameters, *ENDINGS)
    sweep = {**head.sweep, **ENDINGS_SWEEP}
    tiled = head.tiled
