"""The sizes of a layer, and the same layer with other sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeGuard

import numpy as np

from medn.core.values import Scalar

SMALLEST_SIZE = 8
"""Whole numbers from here on are sizes (channels, lengths, heights); below they are kernels, strides and counts."""
ALIGNED_SHARE = 0.75
"""How many sizes that were multiples of 8 stay one; the others show what an odd size costs."""


def is_size(value: Scalar) -> TypeGuard[int]:
    return type(value) is int and value >= SMALLEST_SIZE


def size_names(values: Mapping[str, Scalar]) -> set[str]:
    """The parameters that are sizes."""
    return {name for name, value in values.items() if is_size(value)}


def scaled_sizes(
    values: Mapping[str, Scalar], names: Collection[str], largest_factor: float, random: np.random.Generator
) -> dict[str, Scalar]:
    """The layer with other sizes; equal sizes stay equal, so squares stay square and depthwise stays depthwise."""
    sizes = {value for name, value in values.items() if name in names and isinstance(value, int)}
    changed: dict[Scalar, int] = {}
    for size in sorted(sizes):
        unit = 8 if size % 8 == 0 and random.random() < ALIGNED_SHARE else 1
        factor = largest_factor ** random.uniform(-1, 1) if random.random() < 0.5 else 1.0
        changed[size] = max(1, round(size * factor / unit)) * unit
    return {name: changed[value] if name in names else value for name, value in values.items()}
