"""Sums, means and maxima over axes: over the tokens of a sequence, over the branches of a block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medn.core.domains import log_range, one_of, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, choice, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode, OnnxTranslator
from medn.layer_generators.operation import Operation, Recognised

if TYPE_CHECKING:
    import torch

FUNCTIONS: Mapping[str, str] = {"sum": "aten.sum", "mean": "aten.mean", "max": "aten.amax"}
"""The operator of torch for each function."""


def _over_axes(operator: str) -> OnnxTranslator:
    def translate(node: OnnxNode) -> Operation | None:
        axes = node.attributes.get("axes", node.value(1))
        return None if axes is None else node.operation(operator, {"self": node.shape(0)}, dim=tuple(map(int, axes)))

    return translate


@layer_kinds.register
class Reduction(LayerKind):
    name = "reduction"
    description = "sum, mean or maximum over axes"
    parameters = (
        choice("function", "what is made of the numbers", tuple(FUNCTIONS)),
        integer("outer", "how many are made of each batch entry, of every inner one", 1, 16_777_216, default=1),
        integer("reduced", "of how many numbers each is made", 1, 16_777_216),
        integer("inner", "elements that lie together at each of them", 1, 16_777_216, default=1),
    )
    sweep = {
        "function": one_of(*FUNCTIONS),
        "outer": weighted({1: 0.4, 8: 0.2, 64: 0.2, 197: 0.2}),
        "reduced": log_range(2, 1024),
        "inner": weighted({1: 0.4, 64: 0.2, 384: 0.2, 3136: 0.2}),
    }
    tiled = ("reduced", "inner")
    onnx_operators = {f"Reduce{name.capitalize()}": _over_axes(operator) for name, operator in FUNCTIONS.items()}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        functions: Mapping[str, Any] = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
        function = functions[values.function]

        class Reduced(torch.nn.Module):
            def forward(self, tensor: torch.Tensor) -> torch.Tensor:
                found: torch.Tensor = function(tensor, dim=2)
                return found

        return Reduced()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.outer, values.reduced, values.inner)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.outer, values.inner)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        written = batch_size * values.outer * values.inner
        read = written * values.reduced
        return Costs(
            # One operation for each element read, and one for each written: a mean divides.
            flops=read + written,
            input_bytes=read * element_bytes,
            output_bytes=written * element_bytes,
            more={"results": written},
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        source, axes = operation.shape("self"), operation.attributes.get("dim")
        function = next((name for name, operator in FUNCTIONS.items() if operator == operation.name), None)
        if function is None or not source or axes is None:
            return None
        places = sorted(axis % len(source) for axis in (axes if isinstance(axes, (list, tuple)) else [axes]))
        if not places or places[0] == 0 or places != list(range(places[0], places[-1] + 1)):
            return None  # over the batch as well, or over axes that do not lie side by side
        if function == "mean" and len(source) == 4 and places == [2, 3]:
            return None  # over height and width: a pooling
        parameters: dict[str, Scalar] = {
            "function": function,
            "outer": math.prod(source[1 : places[0]]),
            "reduced": math.prod(source[places[0] : places[-1] + 1]),
            "inner": math.prod(source[places[-1] + 1 :]),
        }
        return Recognised(parameters, batch_size=source[0])
