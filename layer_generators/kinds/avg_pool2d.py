"""Pool over height and width: the average of each window."""

from __future__ import annotations

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.pooling import POOL_PARAMETERS, POOL_SHORTHANDS, Pool, onnx_pool


@layer_kinds.register
class AvgPool2d(Pool, LayerKind):
    name = "avg_pool2d"
    description = "the average of each window over height and width"
    module = "AvgPool2d"
    pools_by = "avg"
    operators = ("aten.avg_pool2d",)
    parameters = POOL_PARAMETERS
    shorthands = POOL_SHORTHANDS
    onnx_operators = {"AveragePool": onnx_pool("aten.avg_pool2d")}
