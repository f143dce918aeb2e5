"""Pools with a sliding window over height and width: what the maximum and the average have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from medn.core.domains import Domain, log_range, one_of, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import Column, Costs, Expression, Parameter, TensorSpec, Values, flag, integer
from medn.layer_generators.onnx_node import OnnxNode, OnnxTranslator, window_attributes
from medn.layer_generators.operation import Operation, Recognised
from medn.layer_generators.window import (
    axis_shorthands,
    by_axis,
    input_sizes,
    per_axis,
    product,
    window_counts,
    window_parameters,
    window_rules,
    window_span,
)

if TYPE_CHECKING:
    import torch

AXES = ("h", "w")

POOL_PARAMETERS: tuple[Parameter, ...] = (
    integer("channels", "channels of input and output", 1, 65_536),
    *input_sizes(AXES),
    *window_parameters(AXES),
    flag("ceil_mode", "a last window that reaches beyond the input counts too"),
)
POOL_SHORTHANDS = axis_shorthands(AXES, "in", "kernel", "stride", "padding")
POOL_SWEEP: dict[str, Domain] = {
    "channels": log_range(8, 1024),
    "in_size": log_range(7, 112),
    "kernel_size": weighted({2: 0.45, 3: 0.4, 5: 0.1, 7: 0.05}),
    "stride": weighted({1: 0.25, 2: 0.65, 3: 0.1}),
    "padding": one_of(0, 1),
    "ceil_mode": weighted({False: 0.9, True: 0.1}),
}


def onnx_pool(name: str) -> OnnxTranslator:
    def translate(node: OnnxNode) -> Operation | None:
        source, kernel = node.shape(0), tuple(node.attributes["kernel_shape"])
        if source is None:
            return None
        window = window_attributes(node, source, kernel)
        ceil_mode = bool(node.attributes.get("ceil_mode", 0))
        return node.operation(name, {"self": source}, kernel_size=kernel, ceil_mode=ceil_mode, **window)

    return translate


class Pool:
    """What pools do alike; goes before `LayerKind` in a kind's bases."""

    module: ClassVar[str]
    """The class in torch.nn."""
    operators: ClassVar[tuple[str, ...]]
    pools_by: ClassVar[str]
    """`max` or `avg`, as TVM calls it."""
    window_parts: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding")
    sweep: ClassVar[Mapping[str, Domain]] = POOL_SWEEP
    tiled: ClassVar[tuple[str, ...]] = ("channels", "in_w")

    def rules(self, values: Values) -> Iterator[str]:
        yield from window_rules(values, AXES)
        for axis in AXES:
            padding, covered = getattr(values, f"padding_{axis}"), window_span(values, axis)
            if padding > covered // 2:
                yield f"padding_{axis}: must be at most half of the window of {covered} (got {padding})"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        names = {"kernel": "kernel_size"}
        window = {names.get(part, part): per_axis(values, part, AXES) for part in self.window_parts}
        module: torch.nn.Module = getattr(torch.nn, self.module)(**window, ceil_mode=values.ceil_mode)
        return module

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.channels, values.in_h, values.in_w)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.channels, *window_counts(values, AXES, values.ceil_mode))

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        """One operation for each element of each window."""
        out_h, out_w = window_counts(values, AXES, values.ceil_mode)
        outputs = batch_size * values.channels * out_h * out_w
        return Costs(
            flops=outputs * product(per_axis(values, "kernel", AXES)),
            input_bytes=batch_size * values.channels * values.in_h * values.in_w * element_bytes,
            output_bytes=outputs * element_bytes,
            more={"out_h": out_h, "out_w": out_w},
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        if values.ceil_mode:
            return None  # a last window is cut off otherwise than torch does
        ones = (1,) * len(AXES)
        dilation = per_axis(values, "dilation", AXES) if "dilation" in self.window_parts else ones
        kernel, stride, padding = (per_axis(values, part, AXES) for part in ("kernel", "stride", "padding"))
        return topi.nn.pool2d(inputs[0], kernel, stride, dilation, padding * 2, self.pools_by)

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("self")
        if operation.name not in self.operators or source is None or len(source) != 4:
            return None
        attributes = operation.attributes
        window = {
            "kernel": attributes["kernel_size"],
            "stride": attributes["stride"] or attributes["kernel_size"],
            "padding": attributes["padding"],
            "dilation": attributes.get("dilation"),
        }
        parameters: dict[str, Scalar] = {
            "channels": source[1],
            "ceil_mode": bool(attributes["ceil_mode"]),
            **by_axis("in", AXES, source[2:]),
        }
        for part in self.window_parts:
            parameters |= by_axis(part, AXES, window[part])
        return Recognised(parameters, batch_size=source[0])
