"""What the data sheets say of a device, and how work fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

OUTPUT_TILES = ((32, 32), (64, 64), (128, 64), (128, 128), (256, 128))
"""Blocks of a product that one multiprocessor computes at a time in the common GPU libraries."""


@dataclass(frozen=True)
class Device:
    multiprocessors: float
    gigaflops: float
    gigabytes_per_s: float
    cache_mb: float


def device_features(
    devices: Mapping[str, Device], names: NDArray[Any], flops: Numbers, moved: Numbers
) -> dict[str, Numbers]:
    """The device as numbers, and the time the work would take at its peaks."""
    sheet = {
        field: np.array([getattr(devices[name], field) for name in names])
        for field in ("multiprocessors", "gigaflops", "gigabytes_per_s", "cache_mb")
    }
    compute_us = flops / sheet["gigaflops"] / 1e3
    memory_us = moved / sheet["gigabytes_per_s"] / 1e3
    return {
        **sheet,
        "peak_compute_us": compute_us,
        "peak_memory_us": memory_us,
        "roofline_us": np.maximum(compute_us, memory_us),
        "compute_share": compute_us / (compute_us + memory_us),
        "cache_fill": moved / sheet["cache_mb"] / 1e6,
    }


def product_features(
    pairs: Numbers | float, rows: Numbers, inner: Numbers, columns: Numbers, multiprocessors: Numbers
) -> dict[str, Numbers]:
    """How a matrix product (or a batch of them) falls into output tiles, and those into waves over a GPU."""
    features: dict[str, Numbers] = {}
    for high, wide in OUTPUT_TILES:
        tiles = np.ceil(rows / high) * np.ceil(columns / wide)
        waves = pairs * tiles / multiprocessors
        features[f"tiles_{high}x{wide}_filled"] = rows * columns / (tiles * high * wide)
        features[f"tiles_{high}x{wide}_waves"] = waves
        features[f"tiles_{high}x{wide}_last_wave"] = waves / np.ceil(waves)
    for name, size in (("rows", rows), ("inner", inner), ("columns", columns)):
        features[f"{name}_mod_4"] = size % 4
        features[f"{name}_mod_128"] = size % 128
    features["smaller_side"] = np.minimum(rows, columns)
    features["larger_side"] = np.maximum(rows, columns)
    features["inner_share"] = inner / np.sqrt(rows * columns)
    return features
