"""What an exporter spells out as several operators, put together again: activation functions and biases."""

from __future__ import annotations

from collections.abc import Iterator

from medn.capture.captured_model import CapturedModel
from medn.core.values import Layer
from medn.fusion.chains import Chain, outside_sources, signature, sole_readers
from medn.fusion.merge import Group, merge
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
"""How ONNX files write these functions. All of their operators work on the one tensor that the first one reads."""
LINEAR_WITH_BIAS = ("linear rows", "elementwise add per_column constant")
SPELLINGS = (*FUNCTIONS, LINEAR_WITH_BIAS)


def put_together(model: CapturedModel) -> CapturedModel:
    """The model with what was spelled out as one layer each, named as the last of its operators."""
    spelled = list(_spelled(model))
    taken = {member for group in spelled for member in group.members}
    rest = [
        Group((index,), layer.name, layer.operator, layer.layer, layer.batch_size)
        for index, layer in enumerate(model.layers)
        if index not in taken
    ]
    return merge(model, [*spelled, *rest]) if spelled else model


def _spelled(model: CapturedModel) -> Iterator[Group]:
    readers = sole_readers(model)
    signatures = [signature(layer) for layer in model.layers]
    for head in range(len(model.layers)):
        for spelling in SPELLINGS:
            members = _follow(head, len(spelling), readers)
            if tuple(signatures[member] for member in members) != spelling:
                continue
            layer = _written_whole(model, members, spelling)
            # What reads a second tensor is another formula of the same words.
            if layer is not None and len(outside_sources(model, members)) == 1:
                first, last = model.layers[head], model.layers[members[-1]]
                yield Group(members, last.name, FUNCTIONS.get(spelling, first.operator), layer, first.batch_size)


def _follow(head: int, count: int, readers: tuple[int | None, ...]) -> tuple[int, ...]:
    """So many layers of the chain that begins here, or fewer where it ends before."""
    members = [head]
    while len(members) < count and (reader := readers[members[-1]]) is not None:
        members.append(reader)
    return tuple(members)


def _written_whole(model: CapturedModel, members: tuple[int, ...], spelling: Chain) -> Layer | None:
    """The one layer that the operators spell; None where their sizes say that it is another."""
    first, last = (model.layers[member].layer for member in (members[0], members[-1]))
    assert first is not None
    assert last is not None
    if spelling in FUNCTIONS:
        elements = int(last.values["rows"]) * int(last.values["columns"])
        return layer_kinds["activation"].layer(function=FUNCTIONS[spelling], elements=elements)
    if first.values["bias"] or first.values["out_features"] != last.values["columns"]:
        return None
    return layer_kinds["linear"].layer(**{**first.values, "bias": True})
