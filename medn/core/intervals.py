"""Intervals around predictions by split-conformal calibration, on the relative scale.

How wide an interval is at one place comes from a light model of the errors, the spread; how wide all of them must be
comes from rows that neither the regressor nor the spread has seen, so the promised share of them is covered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from medn.core.table import Array

LEVEL = 0.9
SMALLEST_ERROR = 1e-4
FARTHEST = 3.0
FARTHEST_DISTANCE = 2.0
"""Standard deviations from the mean prediction, and distances, beyond which the spread does not change any more."""

SHRINKAGE = 10.0
"""How many rows say that the spread is the same everywhere, against those that say otherwise."""


@dataclass(frozen=True)
class Spread:
    """The usual relative error as a function of the predicted latency and of the distance to what was measured."""

    centre: float
    scale: float
    """Mean and standard deviation of the logarithm of predictions."""
    weights: tuple[float, float, float, float]
    low: float
    high: float
    """Bounds of the logarithm of the spread: it is not trusted beyond what it was fitted on."""

    def at(self, predicted_s: Array, distance: Array) -> Array:
        place, near = self._terms(predicted_s, distance)
        constant, slope, curve, far = self.weights
        logarithm = constant + place * (slope + curve * place) + far * near
        return np.asarray(np.exp(np.clip(logarithm, self.low, self.high)))

    def at_one(self, log_latency: float, distance: float) -> float:
        """The same for one prediction, whose logarithm is known."""
        place = min(max((log_latency - self.centre) / self.scale, -FARTHEST), FARTHEST)
        constant, slope, curve, far = self.weights
        logarithm = constant + place * (slope + curve * place) + far * min(distance, FARTHEST_DISTANCE)
        return math.exp(min(max(logarithm, self.low), self.high))

    def columns(self, predicted_s: Array, distance: Array) -> Array:
        """What the logarithm of the spread is a weighted sum of.

        A quadratic of the latency, as the shortest latencies are the noisiest and the longest the rarest.
        """
        place, near = self._terms(predicted_s, distance)
        return np.column_stack([np.ones(len(place)), place, place**2, near])

    def _terms(self, predicted_s: Array, distance: Array) -> tuple[Array, Array]:
        place = np.clip((np.log(predicted_s) - self.centre) / self.scale, -FARTHEST, FARTHEST)
        return place, np.minimum(distance, FARTHEST_DISTANCE)


def log_errors(predicted_s: Array, measured_s: Array) -> Array:
    return np.asarray(np.abs(np.log(measured_s) - np.log(predicted_s)))


def fit_spread(predicted_s: Array, measured_s: Array, distance: Array) -> Spread:
    """Where errors are large and where they are small, by ridge regression of their logarithm."""
    predictions = np.log(predicted_s)
    unfitted = Spread(float(predictions.mean()), max(float(predictions.std()), 1e-6), (0.0,) * 4, 0.0, 0.0)
    columns = unfitted.columns(predicted_s, distance)
    errors = np.log(np.maximum(log_errors(predicted_s, measured_s), SMALLEST_ERROR))
    means = columns.mean(axis=0)
    centred = columns - means
    penalty = np.diag(SHRINKAGE * centred.var(axis=0) + 1e-9)
    slopes = np.linalg.solve(centred.T @ centred + penalty, centred.T @ (errors - errors.mean()))
    slopes[0] = errors.mean() - float(means[1:] @ slopes[1:])
    fitted = columns @ slopes
    first, second, third, fourth = (float(weight) for weight in slopes)
    return Spread(
        unfitted.centre,
        unfitted.scale,
        (first, second, third, fourth),
        float(np.quantile(fitted, 0.02)),
        float(np.quantile(fitted, 0.98)),
    )


@dataclass(frozen=True)
class Coverage:
    """How intervals did on rows with a known answer."""

    level: float
    rows: int
    covered: float
    mean_width: float
    """Mean of (high - low) / predicted."""

    def as_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Interval:
    """Calibrated bounds: `quantile` times the spread on either side of the logarithm of the prediction."""

    level: float
    quantile: float
    calibration_rows: int
    spread: Spread

    @property
    def guaranteed_level(self) -> float:
        """What the number of calibration rows can promise: few rows cannot speak for a high level."""
        return min(self.level, self.calibration_rows / (self.calibration_rows + 1))

    def bounds(self, predicted_s: Array, distance: Array) -> tuple[Array, Array]:
        """Low and high, in seconds."""
        factor = np.exp(self.quantile * self.spread.at(predicted_s, distance))
        return predicted_s / factor, predicted_s * factor

    def factor_of_one(self, log_latency: float, distance: float) -> float:
        """High is the prediction times this, low the prediction divided by it."""
        return math.exp(self.quantile * self.spread.at_one(log_latency, distance))

    def coverage(self, predicted_s: Array, measured_s: Array, distance: Array) -> Coverage:
        low, high = self.bounds(predicted_s, distance)
        return Coverage(
            self.level,
            len(measured_s),
            float(((measured_s >= low) & (measured_s <= high)).mean()),
            float(((high - low) / predicted_s).mean()),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Interval:
        spread = dict(written["spread"])
        spread["weights"] = tuple(spread["weights"])
        return cls(written["level"], written["quantile"], written["calibration_rows"], Spread(**spread))


def calibrate(spread: Spread, predicted_s: Array, measured_s: Array, distance: Array, level: float = LEVEL) -> Interval:
    """The interval that covers `level` of rows like these.

    >>> predicted_s, distance = np.ones(99), np.zeros(99)
    >>> spread = Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)
    >>> round(calibrate(spread, predicted_s, np.exp(np.arange(1, 100) / 100), distance).quantile, 2)
    0.9
    """
    scores = np.sort(log_errors(predicted_s, measured_s) / spread.at(predicted_s, distance))
    rank = min(math.ceil((len(scores) + 1) * level), len(scores))
    return Interval(level, float(scores[rank - 1]), len(scores), spread)
