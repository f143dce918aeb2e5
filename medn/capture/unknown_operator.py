"""Operators that no layer kind knows: what they cost at least."""

from __future__ import annotations

from medn.capture.operator_call import Call


def unknown_costs(call: Call) -> tuple[int, int]:
    """FLOPs and moved bytes of an operator known by its tensors alone: one operation per element, each moved once."""
    written = sum(tensor.size_bytes for tensor in call.writes)
    gathered, reads = (call.reads[:1], call.reads[1:]) if call.gathers else ((), call.reads)
    moved = written + sum(tensor.size_bytes for tensor in reads)
    moved += sum(min(tensor.size_bytes, written) for tensor in gathered)
    if call.flops is not None:
        return call.flops, moved
    return max(tensor.elements for tensor in (*call.writes, *reads)), moved
