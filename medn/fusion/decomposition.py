"""Activation functions and biases that an exporter decomposed into several operators, as one layer again."""

from __future__ import annotations

from collections.abc import Iterator

from medn.capture.captured_model import CapturedModel
from medn.core.values import Layer
from medn.fusion.chains import Chain, outside_sources, signature, sole_readers
from medn.fusion.merge import FusedGroup, merge
from medn.layer_generators.kind import layer_kinds

FUNCTIONS: dict[Chain, str] = {
    ("activation sigmoid", "elementwise mul none"): "silu",
    (
        "elementwise div scalar constant",
        "Erf",
        "elementwise add scalar constant",
        "elementwise mul none",
        "elementwise mul scalar constant",
    ): "gelu",
    (
        "elementwise mul none constant",  # by itself, and then once more
        "elementwise mul none",
        "elementwise mul scalar constant",
        "elementwise add none",
        "elementwise mul scalar constant",
        "activation tanh",
        "elementwise add scalar constant",
        "elementwise mul none",
        "elementwise mul scalar constant",
    ): "gelu_tanh",
}
"""How ONNX files decompose these functions. All operators work on the one tensor that the first one reads."""
LINEAR_WITH_BIAS = ("linear rows", "elementwise add per_column constant")
DECOMPOSITIONS = (*FUNCTIONS, LINEAR_WITH_BIAS)


def recompose(model: CapturedModel) -> CapturedModel:
    """The model with one layer for each decomposed function, named as the last of its operators."""
    groups = list(_decomposed(model))
    taken = {member for group in groups for member in group.members}
    rest = [
        FusedGroup((index,), layer.name, layer.operator, layer.layer, layer.batch_size)
        for index, layer in enumerate(model.layers)
        if index not in taken
    ]
    return merge(model, [*groups, *rest]) if groups else model


def _decomposed(model: CapturedModel) -> Iterator[FusedGroup]:
    readers = sole_readers(model)
    signatures = [signature(layer) for layer in model.layers]
    for head in range(len(model.layers)):
        for decomposition in DECOMPOSITIONS:
            members = _follow(head, len(decomposition), readers)
            if tuple(signatures[member] for member in members) != decomposition:
                continue
            layer = _recomposed_layer(model, members, decomposition)
            # A chain that reads a second tensor is another formula of the same operators.
            if layer is not None and len(outside_sources(model, members)) == 1:
                first, last = model.layers[head], model.layers[members[-1]]
                yield FusedGroup(
                    members, last.name, FUNCTIONS.get(decomposition, first.operator), layer, first.batch_size
                )


def _follow(head: int, count: int, readers: tuple[int | None, ...]) -> tuple[int, ...]:
    """So many layers of the chain that begins here, or fewer where it ends before."""
    members = [head]
    while len(members) < count and (reader := readers[members[-1]]) is not None:
        members.append(reader)
    return tuple(members)


def _recomposed_layer(model: CapturedModel, members: tuple[int, ...], decomposition: Chain) -> Layer | None:
    """The layer that was decomposed; None where the sizes do not match."""
    first, last = (model.layers[member].layer for member in (members[0], members[-1]))
    assert first is not None
    assert last is not None
    if decomposition in FUNCTIONS:
        elements = int(last.values["rows"]) * int(last.values["columns"])
        return layer_kinds["activation"].layer(function=FUNCTIONS[decomposition], elements=elements)
    if first.values["bias"] or first.values["out_features"] != last.values["columns"]:
        return None
    return layer_kinds["linear"].layer(**{**first.values, "bias": True})
