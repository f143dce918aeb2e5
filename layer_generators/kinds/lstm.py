"""Long short-term memory, over a whole sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, layer_kinds
from medn.layer_generators.operation import Recognised
from medn.layer_generators.recurrent import (
    RECURRENT_PARAMETERS,
    RECURRENT_SWEEP,
    recognise_recurrent,
    recurrent_costs,
    recurrent_input,
    recurrent_output,
)

if TYPE_CHECKING:
    import torch

GATES, STATES = 4, 2
"""Input, forget, cell and output gate; a hidden and a cell state."""


@layer_kinds.register
class Lstm(LayerKind):
    name = "lstm"
    description = "long short-term memory over a sequence"
    parameters = RECURRENT_PARAMETERS
    sweep = RECURRENT_SWEEP
    tiled = ("input_size", "hidden_size")

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.LSTM(
            values.input_size,
            values.hidden_size,
            values.num_layers,
            bias=values.bias,
            batch_first=True,
            bidirectional=values.bidirectional,
        )

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return recurrent_input(values, batch_size)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return recurrent_output(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        return recurrent_costs(values, GATES, STATES, batch_size, element_bytes)

    def recognise_module(self, module: torch.nn.Module, input_shapes: tuple[tuple[int, ...], ...]) -> Recognised | None:
        import torch

        return recognise_recurrent(module, input_shapes[0]) if isinstance(module, torch.nn.LSTM) else None
