"""Operators that no layer kind knows: what they cost at least, and what to ask a predictor for in their place."""

from __future__ import annotations

from medn.capture.captured_model import CapturedLayer
from medn.capture.operator_call import Call
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.values import Layer
from medn.layer_generators.kind import layer_kinds

STAND_IN_DTYPE = "fp32"


def unknown_costs(call: Call) -> tuple[int, int]:
    """FLOPs and moved bytes of an operator known by its tensors alone: one operation per element, each moved once."""
    written = sum(tensor.size_bytes for tensor in call.writes)
    gathered, reads = (call.reads[:1], call.reads[1:]) if call.gathers else ((), call.reads)
    moved = written + sum(tensor.size_bytes for tensor in reads)
    moved += sum(min(tensor.size_bytes, written) for tensor in gathered)
    if call.flops is not None:
        return call.flops, moved
    return max(tensor.elements for tensor in (*call.writes, *reads)), moved


def stand_in(captured: CapturedLayer) -> Layer:
    """The layer to ask for instead of an unknown operator, in `STAND_IN_DTYPE` and at the operator's batch size.

    Nearly all unknown operators only move data, so their time is that of moving as many bytes. A ReLU reads and
    writes as much and does next to nothing else: the device's own measurements say how fast that goes.
    """
    pair_bytes = 2 * ELEMENT_BYTES[STAND_IN_DTYPE]
    elements = max(1, captured.moved_bytes // (pair_bytes * captured.batch_size))
    return layer_kinds["activation"].layer(function="relu", elements=elements)
