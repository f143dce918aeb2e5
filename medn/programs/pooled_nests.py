"""Rows of nests as rows for trees: the sums of components, on each device's own columns, and the nests that do most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.programs.encodings import DEVICE, HEAD, WORK, as_tokens
from medn.programs.loops import COMPONENTS, NEST_SIZE, amounts
from medn.programs.rates import device_rates

COUNT = len(COMPONENTS)
SHORTEST_S = 1e-12
MOST = 2
"""Nests that are told one by one."""
ARITHMETIC = 0
"""The component that says which nest does most."""


def program_amounts(rows: Array) -> Array:
    """The components of whole programs."""
    _, mask, _, vectors = as_tokens(rows, NEST_SIZE)
    summed: Array = (amounts(vectors) * mask[..., None]).sum(axis=1)
    return summed


def program_rates(rows: Array, latency_s: Array, devices: int) -> Array:
    """The rates of each device, and last those of any other, by which programs take what they took."""
    return device_rates(program_amounts(rows), latency_s, rows[:, DEVICE], devices)


def pooled_nests(rows: Array, rates: Array) -> Array:
    """What trees read, behind the first column: the seconds that follow from the rates."""
    head, mask, _, vectors = as_tokens(rows, NEST_SIZE)
    device = head[:, DEVICE].astype(np.int64)
    known = np.where((device >= 0) & (device < len(rates) - 1), device, len(rates) - 1)
    each = amounts(vectors) * mask[..., None]
    total = each.sum(axis=1)
    seconds = np.maximum((total * rates[known]).sum(axis=1), SHORTEST_S)
    logs = np.log2(1 + total)
    shares = total * rates[known] / seconds[:, None]
    order = np.argsort(-each[:, :, ARITHMETIC], axis=1, kind="stable")
    main = [_nest(vectors, mask, order, place, logs) for place in range(MOST)]
    is_device = device[:, None] == np.arange(len(rates) - 1)
    sizes = head[:, WORK:HEAD], mask.sum(axis=1, keepdims=True), np.log2(seconds)[:, None]
    found = np.hstack([seconds[:, None], *sizes, is_device, logs - logs[:, [ARITHMETIC]], shares, *main])
    return found.astype(np.float32).astype(np.float64)


def _nest(vectors: Array, mask: Array, order: NDArray[np.int64], place: int, logs: Array) -> Array:
    """One nest of each program, its components over the program's arithmetic; zeros where there are fewer."""
    rows = np.arange(len(vectors))
    if place >= vectors.shape[1]:
        return np.zeros((len(rows), NEST_SIZE))
    chosen = vectors[rows, order[:, place]].copy()
    chosen[:, :COUNT] -= logs[:, [ARITHMETIC]]
    told: Array = chosen * (mask[rows, order[:, place]] > 0)[:, None]
    return told


def pooled_width(devices: int) -> int:
    """How many numbers `pooled_nests` gives."""
    return 1 + HEAD - WORK + 2 + devices + 2 * COUNT + MOST * NEST_SIZE
