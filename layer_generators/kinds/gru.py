"""Gated recurrent unit, over a whole sequence."""

from __future__ import annotations

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.recurrent import Recurrent, onnx_recurrence


@layer_kinds.register
class Gru(Recurrent, LayerKind):
    name = "gru"
    description = "gated recurrent unit over a sequence"
    module = "GRU"
    onnx_operators = {"GRU": onnx_recurrence}
    gates = 3  # reset, update and new
    states = 1
