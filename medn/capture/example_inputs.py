"""The inputs that a model is captured with: as given, or at another batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from medn.capture.meta_run import MAX_TRACKED_ELEMENTS
from medn.capture.operators import tensors_in
from medn.core.errors import UsageError
from medn.core.units import format_bytes

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a model."""

MAX_INPUT_BYTES = 1 << 30
"""Inputs for a real run are not made larger than this."""


def arguments(example_inputs: Any) -> Inputs:
    """A tensor, a sequence of arguments, or a mapping of keyword arguments."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, Sequence):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


@dataclass(frozen=True)
class Example:
    """Inputs as given, and the batch size to capture at: the first axis of the first tensor is the batch.

    Every tensor that begins with the same size is made longer or shorter by repeating or leaving out entries.
    """

    inputs: Inputs
    example_size: int | None
    batch_size: int

    @property
    def shapes(self) -> Inputs:
        """Small tensors with their values; those that would have to be made larger, and are not small, without data."""
        return self._resized(lambda tensor: torch.empty(self._shape(tensor), dtype=tensor.dtype, device="meta"))

    def shapes_on(self, mode: Any) -> Inputs:
        """The same as tensors of a mode that makes them without data on the devices of the given ones."""

        def make(tensor: torch.Tensor) -> torch.Tensor:
            with mode:
                return torch.empty(self._shape(tensor), dtype=tensor.dtype, device=tensor.device)

        return self._resized(make)

    @property
    def values(self) -> Inputs:
        """All with data."""
        tensors = tensors_in(self.shapes)
        if any(tensor.is_meta for tensor in tensors_in(self.inputs)):
            raise UsageError("not possible, the inputs have no data")
        size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.is_meta)
        if size_bytes > MAX_INPUT_BYTES:
            raise UsageError(f"not possible, inputs of {format_bytes(size_bytes)} would have to be made")
        return self._resized(self._repeated)

    def _resized(self, make: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        def resized(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.dim() or len(tensor) != self.example_size or self.example_size == self.batch_size:
                return tensor
            small = tensor[:1].numel() * self.batch_size <= MAX_TRACKED_ELEMENTS
            return self._repeated(tensor) if small else make(tensor)

        inputs: Inputs = tree_map_only(torch.Tensor, resized, self.inputs)
        return inputs

    def _shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        return (self.batch_size, *tensor.shape[1:])

    def _repeated(self, tensor: torch.Tensor) -> torch.Tensor:
        entries = torch.arange(self.batch_size, device=tensor.device) % max(len(tensor), 1)
        return tensor.detach().index_select(0, entries)


def make_example(example_inputs: Any, batch_size: int | None) -> Example:
    inputs = arguments(example_inputs)
    example_size = next((len(tensor) for tensor in tensors_in(inputs) if tensor.dim()), None)
    example = Example(inputs, example_size, batch_size or example_size or 1)
    try:
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors_in(example.shapes)]
    except (RuntimeError, OverflowError, TypeError):
        sizes = [1 << 63]
    if max(sizes, default=0) >= 1 << 63:
        raise UsageError(f"batch_size: {batch_size} is more than a tensor can hold")
    return example
