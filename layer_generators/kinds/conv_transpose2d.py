"""Transposed convolution over height and width, the learned way to a larger size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.convolution import (
    WINDOW_PARTS,
    build_convolution,
    convolution_input,
    convolution_parameters,
    group_rules,
    onnx_convolution,
    recognise_convolution,
)
from medn.layer_generators.kind import Column, Costs, LayerKind, Product, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import axis_shorthands, by_axis, per_axis, product, window_span

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")


def _out_sizes(values: Values) -> tuple[Column, ...]:
    sizes, strides, paddings, extras = (
        per_axis(values, part, AXES) for part in ("in", "stride", "padding", "output_padding")
    )
    return tuple(
        (size - 1) * stride - 2 * padding + window_span(values, axis) + extra
        for axis, size, stride, padding, extra in zip(AXES, sizes, strides, paddings, extras, strict=True)
    )


@layer_kinds.register
class ConvTranspose2d(LayerKind):
    name = "conv_transpose2d"
    description = "transposed convolution over height and width"
    parameters = (
        *convolution_parameters(AXES),
        *(integer(f"output_padding_{axis}", f"added on one side along {axis}", 0, 1024, default=0) for axis in AXES),
    )
    shorthands = axis_shorthands(AXES, "in", *WINDOW_PARTS, "output_padding")
    sweep = {
        "in_channels": log_range(8, 256, multiple_of=8),
        "out_channels": log_range(8, 256, multiple_of=8),
        "in_size": log_range(4, 56),
        "kernel_size": weighted({2: 0.5, 3: 0.2, 4: 0.3}),
        "stride": weighted({1: 0.15, 2: 0.85}),
        "padding": weighted({0: 0.6, 1: 0.4}),
        "bias": one_of(True, False),
    }
    tiled = ("in_channels", "out_channels")
    onnx_operators = {"ConvTranspose": onnx_convolution(transposed=True)}

    def rules(self, values: Values) -> Iterator[str]:
        yield from group_rules(values)
        for axis, size in zip(AXES, _out_sizes(values), strict=True):
            extra, stride, dilation = (
                getattr(values, f"{part}_{axis}") for part in ("output_padding", "stride", "dilation")
            )
            if extra >= max(stride, dilation):
                allowed = f"stride_{axis}={stride} or dilation_{axis}={dilation}"
                yield f"output_padding_{axis}: must be below {allowed} (got {extra})"
            if size < 1:
                yield f"padding_{axis}: takes away the whole output; its size along {axis} would be {size}"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        extra = per_axis(values, "output_padding", AXES)
        return build_convolution(values, AXES, partial(torch.nn.ConvTranspose2d, output_padding=extra))

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return convolution_input(values, AXES, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.out_channels, *_out_sizes(values))

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        # Each input position spreads one filter over the output, so the work follows the input's size.
        rows = batch_size * product(per_axis(values, "in", AXES))
        out_h, out_w = _out_sizes(values)
        spread = values.out_channels // values.groups * product(per_axis(values, "kernel", AXES))
        return Costs(
            flops=2 * rows * values.in_channels * spread,
            input_bytes=rows * values.in_channels * element_bytes,
            output_bytes=batch_size * values.out_channels * out_h * out_w * element_bytes,
            parameter_bytes=(values.in_channels * spread + values.bias * values.out_channels) * element_bytes,
            more={
                "out_h": out_h,
                "out_w": out_w,
                "matrix_rows": rows,
                "matrix_columns": spread,
                "matrix_inner": values.in_channels // values.groups,
                "unfolded_bytes": rows * spread * values.groups * element_bytes,
            },
            product=Product(values.groups, spread, values.in_channels // values.groups, rows),
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        found = recognise_convolution(operation, AXES, transposed=True)
        if found is None:
            return None
        extra = by_axis("output_padding", AXES, operation.attributes["output_padding"])
        return Recognised({**found.parameters, **extra}, found.batch_size)
