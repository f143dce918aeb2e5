"""An operation of a captured model in neutral words, for layer kinds to recognise themselves in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medn.core.values import Scalar

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """One call of an operator: its name without overload ("aten.convolution"), and its arguments by name.

    Tensors appear in `tensors` as shapes (a list of tensors as a tuple of shapes); everything else in `attributes`.
    """

    name: str
    tensors: Mapping[str, Shape | tuple[Shape, ...]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output: Shape = ()
    model_batch: int | None = None
    """Batch size the whole model was called with, where known: matrix products fold it into their rows."""
    strides: Mapping[str, Any] = field(default_factory=dict)
    """How the elements of each tensor lie in memory, in the form of `tensors`."""
    output_strides: Shape = ()

    @property
    def plain_name(self) -> str:
        """The name of the operator, whether it works in place or not."""
        return self.name.removesuffix("_")

    def shape(self, name: str) -> Shape | None:
        """The shape of one tensor argument; None where it was not given."""
        found = self.tensors.get(name)
        return found if found is None or all(isinstance(size, int) for size in found) else None  # type: ignore[return-value]

    def shapes(self, name: str) -> tuple[Shape, ...]:
        """The shapes of an argument that is a list of tensors; none where it was not given."""
        return tuple(shape for shape in self.tensors.get(name, ()) if isinstance(shape, tuple))


@dataclass(frozen=True)
class Recognised:
    """What a kind read off an operation: its parameters and the batch size."""

    parameters: Mapping[str, Scalar]
    batch_size: int


def split_batch(shape: Shape) -> tuple[int, int]:
    """Batch size and elements of one batch entry; a lone axis belongs to one entry.

    >>> split_batch((2, 3, 4)), split_batch((5,))
    ((2, 12), (1, 5))
    """
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))


def split_rows(shape: Shape) -> tuple[int, int, int]:
    """Batch size, rows of one batch entry, and the size of a row.

    >>> split_rows((2, 3, 4, 5)), split_rows((2, 5))
    ((2, 12, 5), (2, 1, 5))
    """
    batch_size, _ = split_batch(shape)
    return batch_size, math.prod(shape[1:-1]), shape[-1]


def contiguous_strides(shape: Shape) -> Shape:
    """The strides of a tensor without gaps whose last axis runs fastest.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def unfold_batch(folded: int, operation: Operation) -> tuple[int, int]:
    """Batch size and the rest of an axis that holds both; all of it is batch where the model's batch is not known."""
    batch_size = operation.model_batch or max(folded, 1)
    return (batch_size, folded // batch_size) if folded % batch_size == 0 else (folded, 1)


def operation_of(
    function: Any,
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    output: Any,
    model_batch: int | None = None,
) -> Operation:
    """The operation behind one call of an aten overload, its arguments named as in the operator's schema."""
    tensors: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    strides: dict[str, Any] = {}
    schema = function._schema.arguments
    given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    given |= {argument.name: value for argument, value in zip(schema, arguments, strict=False)}
    for name, value in {**given, **keywords}.items():
        if hasattr(value, "shape"):
            tensors[name], strides[name] = tuple(value.shape), value.stride()
        elif isinstance(value, (list, tuple)) and value and all(hasattr(part, "shape") for part in value):
            tensors[name] = tuple(tuple(part.shape) for part in value)
            strides[name] = tuple(part.stride() for part in value)
        else:
            attributes[name] = value
    first = output[0] if isinstance(output, (list, tuple)) else output
    overload = str(function)  # "aten.convolution.default"
    shape, output_strides = (tuple(first.shape), first.stride()) if hasattr(first, "shape") else ((), ())
    return Operation(overload.rsplit(".", 1)[0], tensors, attributes, shape, model_batch, strides, output_strides)
