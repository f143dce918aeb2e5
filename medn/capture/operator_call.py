"""One operator at work on its tensors, in the words that torch and ONNX captures share."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from medn.layer_generators.kind import LayerKind
from medn.layer_generators.operation import Recognised, Shape


@dataclass(frozen=True)
class Tensor:
    """A tensor as an operator sees it. Views of one memory share its `storage` and differ in `place`."""

    storage: Hashable
    place: Hashable
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
    """One operator at work."""

    name: str
    operator: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    recognised: tuple[LayerKind, Recognised] | None = None
    flops: int | None = None
    """Of an operator that no kind knows, where they can be counted."""
    in_place: bool = False
    """It writes into tensors that were there before."""
    picks: bool = False
    """Of its first tensor it reads only as much as it writes, as an index does."""


def distinct(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same tensors, each once: what is given twice is read once."""
    return tuple({(tensor.storage, tensor.place): tensor for tensor in tensors}.values())
