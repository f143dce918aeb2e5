"""Convolutions over one, two or three axes: parameters, rules and formulas, written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from medn.core.values import Scalar
from medn.layer_generators.expressions import plus_bias
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    Parameter,
    Product,
    TensorSpec,
    Values,
    by_name,
    flag,
    integer,
)
from medn.layer_generators.onnx_node import OnnxNode, OnnxTranslator, window_attributes
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import (
    Axes,
    by_axis,
    dilation_parameters,
    input_sizes,
    per_axis,
    product,
    same_padding,
    window_counts,
    window_parameters,
    window_rules,
)

if TYPE_CHECKING:
    import torch

WINDOW_PARTS = ("kernel", "stride", "padding", "dilation")
CONVENIENCES = by_name(
    flag("depthwise", "one group per input channel; out_channels is rounded to a multiple of in_channels"),
    flag("same_padding", "the padding that keeps the size at stride 1"),
)


def convolution_parameters(axes: Axes) -> tuple[Parameter, ...]:
    return (
        integer("in_channels", "channels of the input", 1, 65_536),
        integer("out_channels", "channels of the output", 1, 65_536),
        *input_sizes(axes),
        *window_parameters(axes),
        *dilation_parameters(axes),
        integer("groups", "groups of channels that do not see one another", 1, 65_536, default=1),
        flag("bias", "a value added to each output channel", default=True),
    )


def open_conveniences(given: dict[str, Scalar], axes: Axes) -> tuple[dict[str, Scalar], list[str]]:
    opened = {name: value for name, value in given.items() if name not in CONVENIENCES}
    mistakes: list[str] = []
    if given.get("same_padding"):
        paddings, mistakes = same_padding(given, axes)
        opened |= paddings
    if given.get("depthwise") and "in_channels" in given:
        channels: Any = given["in_channels"]
        if given.get("groups", channels) != channels:
            mistakes.append(f"depthwise: means groups={channels} (got groups={given['groups']}); give one of the two")
        asked: Any = given.get("out_channels", channels)
        multiple = max(1, round(asked / channels))
        opened |= {"groups": channels, "out_channels": multiple * channels}
    return opened, mistakes


def group_rules(values: Values) -> Iterator[str]:
    for name in ("in_channels", "out_channels"):
        if getattr(values, name) % values.groups:
            yield f"groups: must divide {name}={getattr(values, name)} (got {values.groups})"


def convolution_input(values: Values, axes: Axes, batch_size: int) -> tuple[TensorSpec, ...]:
    return (TensorSpec((batch_size, values.in_channels, *per_axis(values, "in", axes))),)


def convolution_costs(
    values: Values, axes: Axes, out_sizes: tuple[Column, ...], batch_size: Column, element_bytes: Column
) -> Costs:
    """Costs of a convolution whose filters are applied once per output position."""
    rows = batch_size * product(out_sizes)
    inner = values.in_channels // values.groups * product(per_axis(values, "kernel", axes))
    return Costs(
        flops=2 * rows * inner * values.out_channels,
        input_bytes=batch_size * values.in_channels * product(per_axis(values, "in", axes)) * element_bytes,
        output_bytes=rows * values.out_channels * element_bytes,
        parameter_bytes=(inner + values.bias) * values.out_channels * element_bytes,
        more={
            **{f"out_{axis}": size for axis, size in zip(axes, out_sizes, strict=True)},
            # The matrix product each group amounts to, and the bytes of its left side when it is laid out in full.
            "matrix_rows": rows,
            "matrix_columns": values.out_channels // values.groups,
            "matrix_inner": inner,
            "unfolded_bytes": rows * inner * values.groups * element_bytes,
        },
        # As libraries lay it out: filters by positions.
        product=Product(values.groups, values.out_channels // values.groups, inner, rows),
    )


def recognise_convolution(operation: Operation, axes: Axes, transposed: bool) -> Recognised | None:
    source, weight = operation.shape("input"), operation.shape("weight")
    if operation.name != "aten.convolution" or source is None or weight is None or len(source) != len(axes) + 2:
        return None
    if operation.attributes["transposed"] is not transposed:
        return None
    groups = operation.attributes["groups"]
    parameters: dict[str, Scalar] = {
        "in_channels": source[1],
        "out_channels": weight[1] * groups if transposed else weight[0],
        "groups": groups,
        "bias": operation.shape("bias") is not None,
        **by_axis("in", axes, source[2:]),
        **by_axis("kernel", axes, weight[2:]),
    }
    for part in ("stride", "padding", "dilation"):
        parameters |= by_axis(part, axes, operation.attributes[part])
    return Recognised(parameters, batch_size=source[0])


def onnx_convolution(weight: int = 1, bias: int = 2, transposed: bool = False) -> OnnxTranslator:
    """For an operator of ONNX whose weight and bias are these of its inputs."""

    def translate(node: OnnxNode) -> Operation | None:
        source, filters = node.shape(0), node.shape(weight)
        if source is None or filters is None:
            return None
        return node.operation(
            "aten.convolution",
            {"input": source, "weight": filters, "bias": node.shape(bias)},
            **window_attributes(node, source, filters[2:]),
            transposed=transposed,
            output_padding=tuple(node.attributes.get("output_padding", (0,) * len(filters[2:]))),
            groups=node.attributes.get("group", 1),
        )

    return translate


def build_convolution(values: Values, axes: Axes, module: Callable[..., torch.nn.Module]) -> torch.nn.Module:
    return module(
        values.in_channels,
        values.out_channels,
        kernel_size=per_axis(values, "kernel", axes),
        stride=per_axis(values, "stride", axes),
        padding=per_axis(values, "padding", axes),
        dilation=per_axis(values, "dilation", axes),
        groups=values.groups,
        bias=values.bias,
    )


class Convolution:
    """What plain convolutions do alike, over however many axes; goes before `LayerKind` in a kind's bases."""

    axes: ClassVar[Axes]
    module: ClassVar[str]
    """The class in torch.nn."""
    conveniences: ClassVar[Mapping[str, Parameter]] = CONVENIENCES
    tiled: ClassVar[tuple[str, ...]] = ("in_channels", "out_channels")
    onnx_operators: ClassVar[Mapping[str, OnnxTranslator]] = {
        "Conv": onnx_convolution(),
        "ConvInteger": onnx_convolution(bias=9),
        "QLinearConv": onnx_convolution(weight=3, bias=8),
    }

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        return open_conveniences(given, self.axes)

    def rules(self, values: Values) -> Iterator[str]:
        yield from group_rules(values)
        yield from window_rules(values, self.axes)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return build_convolution(values, self.axes, getattr(torch.nn, self.module))

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return convolution_input(values, self.axes, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.out_channels, *window_counts(values, self.axes))

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return convolution_costs(values, self.axes, window_counts(values, self.axes), batch_size, element_bytes)

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        window = [per_axis(values, part, self.axes) for part in ("stride", "padding", "dilation")]
        layout = f"NC{'DHW'[-len(self.axes) :]}"
        return plus_bias(topi.nn.conv(inputs[0], weights[0], *window, values.groups, layout), weights, axis=1)

    def recognise(self, operation: Operation) -> Recognised | None:
        return recognise_convolution(operation, self.axes, transposed=False)
