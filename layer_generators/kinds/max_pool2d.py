"""Pool over height and width: the largest element of each window."""

from __future__ import annotations

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.pooling import AXES, POOL_PARAMETERS, POOL_SHORTHANDS, Pool, onnx_pool
from medn.layer_generators.window import axis_shorthands, dilation_parameters


@layer_kinds.register
class MaxPool2d(Pool, LayerKind):
    name = "max_pool2d"
    description = "the largest element of each window over height and width"
    module = "MaxPool2d"
    pools_by = "max"
    operators = ("aten.max_pool2d_with_indices", "aten.max_pool2d")
    window_parts = ("kernel", "stride", "padding", "dilation")
    parameters = (*POOL_PARAMETERS, *dilation_parameters(AXES))
    shorthands = {**POOL_SHORTHANDS, **axis_shorthands(AXES, "dilation")}
    onnx_operators = {"MaxPool": onnx_pool("aten.max_pool2d")}
