"""Recurrent layers that go through a sequence step by step: what LSTM and GRU have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from medn.core.domains import Domain, log_range, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import Column, Costs, Parameter, TensorSpec, Values, flag, integer
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Recognised, Shape

if TYPE_CHECKING:
    import torch

RECURRENT_PARAMETERS: tuple[Parameter, ...] = (
    integer("input_size", "features of one step of the input", 1, 65_536),
    integer("hidden_size", "features of the state", 1, 65_536),
    integer("num_layers", "layers on top of one another", 1, 64, default=1),
    integer("sequence_length", "steps of each batch entry", 1, 65_536),
    flag("bidirectional", "a second pass from the end to the start"),
    flag("bias", "biases in every gate", default=True),
)
RECURRENT_SWEEP: dict[str, Domain] = {
    "input_size": log_range(16, 512),
    "hidden_size": log_range(16, 512),
    "num_layers": weighted({1: 0.7, 2: 0.3}),
    "sequence_length": log_range(4, 128),
    "bidirectional": weighted({False: 0.75, True: 0.25}),
    "bias": weighted({True: 0.8, False: 0.2}),
}


def onnx_recurrence(node: OnnxNode) -> Recognised:
    """The parameters at once: torch takes these layers apart, so there is no operation of theirs to recognise."""
    first, second, features = node.shape(0) or ()
    batch_first = bool(node.attributes.get("layout", 0))
    batch_size, steps = (first, second) if batch_first else (second, first)
    parameters = {
        "input_size": features,
        "hidden_size": node.attributes["hidden_size"],
        "sequence_length": steps,
        "bidirectional": node.attributes.get("direction") == "bidirectional",
        "bias": node.shape(3) is not None,
    }
    return Recognised(parameters, batch_size)


class Recurrent:
    """What LSTM and GRU do alike; goes before `LayerKind` in a kind's bases."""

    module: ClassVar[str]
    """The class in torch.nn."""
    gates: ClassVar[int]
    states: ClassVar[int]
    """How many states a cell hands on."""
    parameters: ClassVar[tuple[Parameter, ...]] = RECURRENT_PARAMETERS
    sweep: ClassVar[Mapping[str, Domain]] = RECURRENT_SWEEP
    tiled: ClassVar[tuple[str, ...]] = ("input_size", "hidden_size")

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        module: torch.nn.Module = getattr(torch.nn, self.module)(
            values.input_size,
            values.hidden_size,
            values.num_layers,
            bias=values.bias,
            batch_first=True,
            bidirectional=values.bidirectional,
        )
        return module

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.sequence_length, values.input_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.sequence_length, values.hidden_size * (1 + values.bidirectional))

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        """FLOPs are the matrix products alone."""
        directions = 1 + values.bidirectional
        steps = batch_size * values.sequence_length
        gate_rows = self.gates * values.hidden_size
        # The layers above the first read the states of all directions below them.
        widths = values.input_size + (values.num_layers - 1) * directions * values.hidden_size
        weights = directions * gate_rows * (widths + values.num_layers * values.hidden_size)
        biases = values.bias * 2 * directions * values.num_layers * gate_rows
        last_states = self.states * directions * values.num_layers * batch_size * values.hidden_size
        return Costs(
            flops=2 * steps * weights,
            input_bytes=steps * values.input_size * element_bytes,
            output_bytes=(steps * directions * values.hidden_size + last_states) * element_bytes,
            parameter_bytes=(weights + biases) * element_bytes,
            more={
                "serial_steps": values.sequence_length * values.num_layers * directions,
                "flops_per_step": 2 * batch_size * gate_rows * values.hidden_size,
            },
        )

    def recognise_module(self, module: torch.nn.Module, input_shapes: tuple[Shape, ...]) -> Recognised | None:
        import torch

        if not isinstance(module, getattr(torch.nn, self.module)) or len(input_shapes[0]) != 3 or module.proj_size:
            return None
        names = ("input_size", "hidden_size", "num_layers", "bidirectional", "bias")
        parameters: dict[str, Scalar] = {name: getattr(module, name) for name in names}
        first, second, _ = input_shapes[0]
        batch_size, parameters["sequence_length"] = (first, second) if module.batch_first else (second, first)
        return Recognised(parameters, batch_size)
