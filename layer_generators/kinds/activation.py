"""Activation functions, one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from medn.core.domains import log_range, one_of
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    LayerKind,
    TensorSpec,
    Values,
    choice,
    integer,
    layer_kinds,
    look_up,
)
from medn.layer_generators.onnx_node import OnnxNode, one_tensor
from medn.layer_generators.operation import Operation, Recognised, split_batch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Function:
    """One function: its torch module, the operators of torch and ONNX, and the operations it takes per element."""

    module: str
    operator: str
    onnx_operator: str
    """Empty where ONNX has none of its own."""
    operations: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """What must be given to the module, and is seen in the operator, to mean this function."""


# An exponential, a division or an error function counts as one operation; a comparison too.
FUNCTIONS: Mapping[str, Function] = {
    "relu": Function("ReLU", "aten.relu", "Relu", 1),
    "relu6": Function("ReLU6", "aten.hardtanh", "", 2),  # Clip, which also means other things
    "leaky_relu": Function("LeakyReLU", "aten.leaky_relu", "LeakyRelu", 2),
    "sigmoid": Function("Sigmoid", "aten.sigmoid", "Sigmoid", 4),
    "hardsigmoid": Function("Hardsigmoid", "aten.hardsigmoid", "HardSigmoid", 4),
    "silu": Function("SiLU", "aten.silu", "Swish", 5),
    "hardswish": Function("Hardswish", "aten.hardswish", "HardSwish", 5),
    "tanh": Function("Tanh", "aten.tanh", "Tanh", 6),
    "gelu": Function("GELU", "aten.gelu", "Gelu", 5, {"approximate": "none"}),
    "gelu_tanh": Function("GELU", "aten.gelu", "Gelu", 13, {"approximate": "tanh"}),
}
OPERATIONS = {name: function.operations for name, function in FUNCTIONS.items()}


def _clip(node: OnnxNode) -> Operation | None:
    low, high = node.attributes.get("min", node.value(1)), node.attributes.get("max", node.value(2))
    bounded = low is not None and high is not None and (float(low), float(high)) == (0.0, 6.0)
    return node.operation("aten.hardtanh", {"self": node.shape(0)}) if bounded else None


def applied(function: str, source: Expression) -> Expression:
    """A function of every element, as a tensor expression."""
    from tvm import te

    def gate(x: Expression) -> Expression:
        return te.max(te.min(x + 3.0, 6.0), 0.0) / 6.0

    def smooth(x: Expression) -> Expression:
        return 0.5 * x * (1.0 + te.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    formulas: Mapping[str, Callable[[Expression], Expression]] = {
        "relu": lambda x: te.max(x, 0.0),
        "relu6": lambda x: te.min(te.max(x, 0.0), 6.0),
        "leaky_relu": lambda x: te.max(x, 0.01 * x),
        "sigmoid": te.sigmoid,
        "hardsigmoid": gate,
        "silu": lambda x: x * te.sigmoid(x),
        "hardswish": lambda x: x * gate(x),
        "tanh": te.tanh,
        "gelu": lambda x: 0.5 * x * (1.0 + te.erf(0.7071067812 * x)),
        "gelu_tanh": smooth,
    }
    return te.compute(source.shape, lambda *at: formulas[function](source(*at)), name=function)


@layer_kinds.register
class Activation(LayerKind):
    name = "activation"
    description = "activation function, one element at a time"
    parameters = (
        choice("function", "which function", tuple(FUNCTIONS)),
        integer("elements", "elements of each batch entry", 1, 268_435_456),
    )
    sweep = {"function": one_of(*FUNCTIONS), "elements": log_range(64, 2_000_000)}
    onnx_operators = {
        "Clip": _clip,
        **{
            function.onnx_operator: one_tensor(function.operator, *function.options)
            for function in FUNCTIONS.values()
            if function.onnx_operator
        },
    }

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        function = FUNCTIONS[values.function]
        module: torch.nn.Module = getattr(torch.nn, function.module)(**function.options)
        return module

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.elements)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.elements)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        elements = batch_size * values.elements
        operations = look_up(OPERATIONS, values.function)
        return Costs(
            flops=operations * elements,
            input_bytes=elements * element_bytes,
            output_bytes=elements * element_bytes,
            more={"all_elements": elements, "operations_per_element": operations},
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        return applied(values.function, inputs[0])

    def recognise(self, operation: Operation) -> Recognised | None:
        source = operation.shape("self")
        if source is None:
            return None
        for name, function in FUNCTIONS.items():
            options = {option: operation.attributes.get(option) for option in function.options}
            if operation.plain_name == function.operator and options == function.options:
                batch_size, elements = split_batch(source)
                return Recognised({"function": name, "elements": elements}, batch_size)
        return None
