"""Which layer kind an operation or a module of a model is."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised

if TYPE_CHECKING:
    import torch


def recognise(operation: Operation) -> tuple[LayerKind, Recognised] | None:
    """The kind that knows this operation, and what it read off it.

    >>> kind, found = recognise(Operation("aten.mm", {"self": (4, 8), "mat2": (8, 16)}))
    >>> kind.name, found.batch_size
    ('linear', 4)
    """
    return first_possible((kind, kind.recognise(operation)) for kind in layer_kinds.values())


def recognise_node(node: OnnxNode) -> tuple[LayerKind, Recognised] | None:
    """The kind of a node of an ONNX file: what any kind makes of it is asked of all, as an operation of torch is."""
    for kind in layer_kinds.values():
        translate = kind.onnx_operators.get(node.operator)
        translated = translate(node) if translate else None
        found = recognise(translated) if isinstance(translated, Operation) else first_possible([(kind, translated)])
        if found is not None:
            return found
    return None


def recognise_module(
    module: torch.nn.Module, input_shapes: tuple[tuple[int, ...], ...]
) -> tuple[LayerKind, Recognised] | None:
    """The kind that knows this module as a whole; None for most, which are known by their operations."""
    if not input_shapes:
        return None
    return first_possible((kind, kind.recognise_module(module, input_shapes)) for kind in layer_kinds.values())


def first_possible(
    found: Iterable[tuple[LayerKind, Recognised | None]],
) -> tuple[LayerKind, Recognised] | None:
    """Models hold degenerate calls too, such as on empty tensors; those are no layer of any kind."""
    for kind, recognised in found:
        if recognised is None or recognised.batch_size < 1:
            continue
        values, mistakes = kind.resolve(recognised.parameters)
        if not mistakes and not any(kind.rules(SimpleNamespace(**values))):
            return kind, recognised
    return None
