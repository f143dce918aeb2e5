"""A call of an operator with its tensors, as both torch and ONNX captures describe it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from medn.layer_generators.kind import LayerKind
from medn.layer_generators.operation import Recognised, Shape


@dataclass(frozen=True)
class TensorView:
    """A tensor as an operator sees it. Views of one storage share its id and differ in `region`."""

    storage: Hashable
    region: Hashable
    shape: Shape
    dtype: str
    element_bytes: int
    storage_bytes: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The memory it covers; a broadcast view covers less than its shape says."""
        return min(self.elements * self.element_bytes, self.storage_bytes)

    @property
    def floating(self) -> bool:
        return "float" in self.dtype


@dataclass(frozen=True)
class Call:
    """A call of one operator."""

    name: str
    operator: str
    reads: tuple[TensorView, ...]
    writes: tuple[TensorView, ...]
    recognised: tuple[LayerKind, Recognised] | None = None
    flops: int | None = None
    """Of an operator that no kind knows, where they can be counted."""
    in_place: bool = False
    """It writes into existing tensors."""
    gathers: bool = False
    """Of its first tensor it reads only as much as it writes, as an index does."""


def distinct(tensors: tuple[TensorView, ...]) -> tuple[TensorView, ...]:
    """The same tensors, each once: what is passed twice is read once."""
    return tuple({(tensor.storage, tensor.region): tensor for tensor in tensors}.values())
