"""Pool over height and width: the average of each window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.pooling import (
    AXES,
    POOL_PARAMETERS,
    POOL_SHORTHANDS,
    POOL_SWEEP,
    pool_costs,
    pool_input,
    pool_output,
    pool_rules,
    recognise_pool,
)
from medn.layer_generators.window import per_axis

if TYPE_CHECKING:
    import torch


@layer_kinds.register
class AvgPool2d(LayerKind):
    name = "avg_pool2d"
    description = "the average of each window over height and width"
    parameters = POOL_PARAMETERS
    shorthands = POOL_SHORTHANDS
    sweep = POOL_SWEEP
    tiled = ("channels", "in_w")

    def rules(self, values: Values) -> Iterator[str]:
        return pool_rules(values)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.AvgPool2d(
            kernel_size=per_axis(values, "kernel", AXES),
            stride=per_axis(values, "stride", AXES),
            padding=per_axis(values, "padding", AXES),
            ceil_mode=values.ceil_mode,
        )

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return pool_input(values, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return pool_output(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return pool_costs(values, batch_size, element_bytes)

    def recognise(self, operation: Operation) -> Recognised | None:
        return recognise_pool(operation) if operation.name == "aten.avg_pool2d" else None
