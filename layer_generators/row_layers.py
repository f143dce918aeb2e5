"""Layers that treat every row by itself: layer and root-mean-square normalisation, softmax."""

from __future__ import annotations

from medn.layer_generators.kind import Column, Costs, Parameter, Values, integer

ROW_PARAMETERS: tuple[Parameter, ...] = (
    integer("features", "size of a row", 1, 4_194_304),
    integer("rows", "rows of each batch entry, such as the tokens of a sequence", 1, 4_194_304, default=1),
)


def row_shape(values: Values, batch_size: int) -> tuple[int, ...]:
    return (batch_size, values.features) if values.rows == 1 else (batch_size, values.rows, values.features)


def row_costs(
    values: Values,
    operations_per_element: int,
    parameter_bytes: Column,
    batch_size: Column,
    element_bytes: Column,
) -> Costs:
    rows = batch_size * values.rows
    elements = rows * values.features
    return Costs(
        flops=operations_per_element * elements,
        input_bytes=elements * element_bytes,
        output_bytes=elements * element_bytes,
        parameter_bytes=parameter_bytes,
        more={"all_rows": rows},
    )
