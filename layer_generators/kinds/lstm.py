"""Long short-term memory, over a whole sequence."""

from __future__ import annotations

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.recurrent import Recurrent


@layer_kinds.register
class Lstm(Recurrent, LayerKind):
    name = "lstm"
    description = "long short-term memory over a sequence"
    module = "LSTM"
    gates = 4  # input, forget, cell and output
    states = 2  # hidden and cell
