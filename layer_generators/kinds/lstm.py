"""Long short-term memory, over a whole sequence."""

from __future__ import annotations

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.recurrent import Recurrent, onnx_recurrence


@layer_kinds.register
class Lstm(Recurrent, LayerKind):
    name = "lstm"
    description = "long short-term memory over a sequence"
    module = "LSTM"
    onnx_operators = {"LSTM": onnx_recurrence}
    gates = 4  # input, forget, cell and output
    states = 2  # hidden and cell
