"""Chains: layers each of which is the only reader of the one before it, written by their kinds."""

from __future__ import annotations

from collections.abc import Sequence

from medn.capture.captured_model import CapturedLayer, CapturedModel

Chain = tuple[str, ...]
"""The signatures of its layers, such as ("conv2d", "elementwise add none", "activation relu")."""

LIGHT_KINDS = ("activation", "elementwise", "batch_norm2d")
"""Kinds that work element by element, so that next to nothing is left of them where another layer absorbs them."""


def signature(layer: CapturedLayer) -> str:
    """What rules distinguish layers by: the kind, with the function or the operation where that matters."""
    if layer.layer is None:
        return layer.operator
    values = layer.layer.values
    if layer.layer.kind == "activation":
        return f"activation {values['function']}"
    if layer.layer.kind == "elementwise":
        # An operand that no layer makes is a weight or a number, which may be folded into other weights.
        constant = " constant" if len(layer.inputs) < 2 else ""
        return f"elementwise {values['operation']} {values['broadcast']}{constant}"
    if layer.layer.kind == "linear" and int(values["rows"]) > 1:
        return "linear rows"  # backends have one operator for a row per batch entry and another for many
    return layer.layer.kind


def sole_readers(model: CapturedModel) -> tuple[int | None, ...]:
    """Of each layer, the only layer that reads it, as often as it runs; None where there is none, or where it is an
    output of the model."""
    readers: list[list[int]] = [[] for _ in model.layers]
    for edge in model.edges:
        if edge.source >= 0:
            readers[edge.source].append(edge.target)
    leaving = {producer for port in model.outputs for producer in port.producers}
    repeats = [layer.repeats for layer in model.layers]
    return tuple(
        targets[0] if len(targets) == 1 and index not in leaving and repeats[targets[0]] == repeats[index] else None
        for index, targets in enumerate(readers)
    )


def outside_sources(model: CapturedModel, members: Sequence[int]) -> dict[int, int]:
    """The layers that a group reads from: their indices, and how many bytes of each."""
    sources: dict[int, int] = {}
    for member in members:
        layer = model.layers[member]
        for source, size_bytes in zip(layer.inputs, layer.input_bytes, strict=True):
            if source not in members:
                sources[source] = sources.get(source, 0) + size_bytes
    return sources
