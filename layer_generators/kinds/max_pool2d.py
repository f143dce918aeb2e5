"""Pool over height and width: the largest element of each window."""

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
from medn.layer_generators.window import axis_shorthands, by_axis, dilation_parameters, per_axis

if TYPE_CHECKING:
    import torch

OPERATORS = ("aten.max_pool2d_with_indices", "aten.max_pool2d")


@layer_kinds.register
class MaxPool2d(LayerKind):
    name = "max_pool2d"
    description = "the largest element of each window over height and width"
    parameters = (*POOL_PARAMETERS, *dilation_parameters(AXES))
    shorthands = {**POOL_SHORTHANDS, **axis_shorthands(AXES, "dilation")}
    sweep = POOL_SWEEP
    tiled = ("channels", "in_w")

    def rules(self, values: Values) -> Iterator[str]:
        return pool_rules(values)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.MaxPool2d(
            kernel_size=per_axis(values, "kernel", AXES),
            stride=per_axis(values, "stride", AXES),
            padding=per_axis(values, "padding", AXES),
            dilation=per_axis(values, "dilation", AXES),
            ceil_mode=values.ceil_mode,
        )

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return pool_input(values, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return pool_output(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return pool_costs(values, batch_size, element_bytes)

    def recognise(self, operation: Operation) -> Recognised | None:
        found = recognise_pool(operation) if operation.name in OPERATORS else None
        if found is None:
            return None
        return Recognised(
            {**found.parameters, **by_axis("dilation", AXES, operation.attributes["dilation"])}, found.batch_size
        )
