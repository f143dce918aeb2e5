"""What an operator costs that the bundle does not predict: overhead, time to move its bytes, time for its arithmetic.

How fast a device does these is read off its own predictions: of kinds that only move data, and of matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.columns import Column
from medn.model.conditioned_rows import ConditionedRows

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor

Layers = Mapping[str, Column]
"""Columns of layers to predict."""

ELEMENTS = np.rint(np.geomspace(2**8, 2**23, 16))
FEATURES = np.rint(np.geomspace(41, 1500, 12))
"""Sizes to predict. No powers of two: among drawn layers, one that fits tiles on all sides is out of the ordinary."""

MOVING: Mapping[str, Layers] = {
    "activation": {"function": "relu", "elements": ELEMENTS},
    "elementwise": {"operation": "add", "columns": ELEMENTS},
}
"""Layers that do little more than to move data, the plainest kind first."""

COMPUTING: Mapping[str, Layers] = {
    "linear": {"in_features": FEATURES, "out_features": FEATURES, "batch_size": 8},
    "matmul": {"rows": FEATURES, "inner": FEATURES, "columns": FEATURES},
    "conv2d": {"in_channels": FEATURES, "out_channels": FEATURES, "kernel_size": 3, "in_size": 14},
}
"""Layers that do little more than arithmetic, where they are large."""

FEWEST_SIZES = 3
"""Sizes that must lie in range for a kind to speak for the device."""

FACTOR = 3.0
"""The time of such an operator is taken to be right within this factor."""


class Speed(NamedTuple):
    """How fast a device does the simplest things."""

    overhead_s: float
    bytes_per_s: float
    flops_per_s: float

    def seconds(self, moved_bytes: Array, flops: Array) -> Array:
        """
        >>> Speed(1e-6, 1e9, 1e9).seconds(np.array([1000.0]), np.array([1000.0])).round(9).tolist()
        [3e-06]
        """
        return np.asarray(self.overhead_s + moved_bytes / self.bytes_per_s + flops / self.flops_per_s)


ASSUMED = Speed(overhead_s=5e-6, bytes_per_s=1e10, flops_per_s=5e10)
"""For what a bundle says nothing about: one core of an ordinary computer."""


STEPS = 20
"""Speeds are known to a twentieth of the utilization: finer than the estimates they are for."""


class DeviceSpeed:
    """The speed of a predictor's device at any utilization, read off its predictions."""

    def __init__(self, predictor: LayerPredictor) -> None:
        self._speeds: dict[int, Speed] = {}
        self._moving = _first_usable(predictor, MOVING)
        self._computing = _first_usable(predictor, COMPUTING)

    @property
    def source(self) -> str:
        """Where the speed comes from, for people."""
        moving, computing = (
            "assumed" if rows is None else f"that of {rows.estimator.kind.name}"
            for rows in (self._moving, self._computing)
        )
        return f"speed of memory {moving}, of arithmetic {computing}"

    def speed(self, utilization: float) -> Speed:
        step = round(utilization * STEPS)
        if step not in self._speeds:
            self._speeds[step] = self._read_off({"utilization": step / STEPS})
        return self._speeds[step]

    def _read_off(self, conditions: Mapping[str, Scalar]) -> Speed:
        overhead_s, bytes_per_s, flops_per_s = ASSUMED
        if self._moving is not None:
            moved_bytes = np.asarray(self._moving.rows.columns["moved_bytes"])
            overhead_s, bytes_per_s = fit_line(moved_bytes, self._moving.under(conditions).latency_s)
        if self._computing is not None:
            flops = np.asarray(self._computing.rows.columns["flops"])
            flops_per_s = float((flops / self._computing.under(conditions).latency_s).max())
        return Speed(overhead_s, bytes_per_s, flops_per_s)


def _first_usable(predictor: LayerPredictor, kinds: Mapping[str, Layers]) -> ConditionedRows | None:
    """The first kind that was measured at enough of these sizes, and its layers of such sizes."""
    for kind in (kind for kind in kinds if kind in predictor.kinds):
        estimator, layers = predictor.estimator(kind), kinds[kind]
        count = next(len(column) for column in layers.values() if isinstance(column, np.ndarray))
        inside = estimator.predict(layers, count).in_range
        if inside.sum() >= FEWEST_SIZES:
            kept = {
                name: column[inside] if isinstance(column, np.ndarray) else column for name, column in layers.items()
            }
            return ConditionedRows(estimator, estimator.prepare(kept, int(inside.sum())))
    return None


def fit_line(moved_bytes: Array, latency_s: Array) -> tuple[float, float]:
    """Overhead in seconds and bytes per second, by least squares on the relative error; neither is negative.

    >>> overhead_s, bytes_per_s = fit_line(np.array([1e3, 1e6, 1e9]), 1e-5 + np.array([1e3, 1e6, 1e9]) / 1e9)
    >>> round(overhead_s, 9), round(bytes_per_s)
    (1e-05, 1000000000)
    """
    terms = np.column_stack([1 / latency_s, moved_bytes / latency_s])
    (overhead_s, per_byte), *_ = np.linalg.lstsq(terms / terms.max(axis=0), np.ones(len(terms)), rcond=None)
    overhead_s, per_byte = np.array([overhead_s, per_byte]) / terms.max(axis=0)
    if overhead_s < 0 or per_byte <= 0:
        share = moved_bytes / latency_s
        overhead_s, per_byte = 0.0, share.sum() / (share**2).sum()
    return float(overhead_s), float(1 / per_byte)
