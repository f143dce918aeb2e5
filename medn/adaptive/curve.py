"""A learning curve: how the error on new layers falls with the number of measured ones, and where it goes from here.

The error is taken for a power law of the number of layers above a floor, which is what the noise of the measurements
alone leaves: error = floor + scale * layers ** -slope.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medn.adaptive.cross_validation import GrowingErrors
from medn.core.table import Array

FEWEST_SIZES = 3
"""Fewer points of a curve do not tell a slope from luck."""

RESAMPLED = 200
"""Curves of layers drawn with repetition, for the doubt in a forecast."""

LEVEL = 0.8
"""Of the bounds of a forecast."""

SLOPES = np.linspace(0.02, 1.2, 60)
USUAL_SLOPE, SLOPE_SPREAD = 0.2, 0.1
"""What few points of a curve are drawn towards: errors fall steeply from a handful of layers and slowly from some
dozens, so that the first points of a curve alone would promise too much."""

LUCK = 0.2
"""How far the logarithm of an error at one size may lie from the law by luck alone."""

NOISE_SHARE = 0.6
"""Two halves of the visits differ by the noise of both, each of half the visits: the mean of what all of them together
are off by is about so much of the usual difference. The mean difference would tell of the worst visits, which the
latency does not come from."""

AT_THE_FLOOR = 0.1
"""An error that lies above the floor by less than this share of itself is at it."""


@dataclass(frozen=True)
class Forecast:
    """An error with its bounds, in shares."""

    error: float
    low: float
    high: float

    @classmethod
    def of(cls, expected: Array) -> Forecast:
        """The first of the errors, with bounds by the others."""
        low, high = np.quantile(expected[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        error = float(expected[0])
        return cls(error, min(error, float(low)), max(error, float(high)))


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Of one kind on one device."""

    layers: int
    """There are in all."""
    sizes: tuple[int, ...]
    """Of the parts that were learned from."""
    errors: tuple[float, ...]
    """With each of them, on layers that were not learned from."""
    floor: float
    laws: Array
    """Scale and slope: by all layers in the first row, by layers drawn anew in the others. No rows where the curve
    says nothing."""

    @property
    def has_forecast(self) -> bool:
        return len(self.laws) > 0

    def expected(self, layers: float) -> Array:
        """The error with so many layers, by each of the laws."""
        return np.asarray(self.floor + self.laws[:, 0] * layers ** -self.laws[:, 1])

    def forecast(self, layers: float) -> Forecast:
        return Forecast.of(self.expected(layers))


def learning_curve(growing: GrowingErrors, noise: float | None, seed: int) -> LearningCurve:
    """`noise` is the median difference between two halves of the visits, where it is known."""
    floor = NOISE_SHARE * (noise or 0.0)
    judged = len(growing.rows)
    random = np.random.default_rng(seed)
    counts = np.vstack([np.ones(judged), random.multinomial(judged, np.full(judged, 1 / judged), RESAMPLED)])
    errors = growing.means(counts)
    tells = len(growing.sizes) >= FEWEST_SIZES and bool((errors > 0).all())
    laws = fit_laws(np.array(growing.sizes, dtype=np.float64), errors, floor, random) if tells else np.empty((0, 2))
    return LearningCurve(growing.layers, growing.sizes, tuple(errors[0].tolist()), floor, laws)


def fit_laws(sizes: Array, errors: Array, floor: float, random: np.random.Generator) -> Array:
    """Scale and slope of the law for each row of errors, the larger sizes counting more.

    Every row after the first gets a usual slope and luck of its own, so that they differ as much as is in doubt.
    """
    others = len(errors) - 1
    usual = USUAL_SLOPE + SLOPE_SPREAD * np.append(0.0, random.normal(size=others))
    above = np.log(np.maximum(errors - floor, AT_THE_FLOOR * errors))
    weights, steps = sizes / sizes.sum(), np.log(sizes)
    # By row and slope: the scale that is right on average, and what is left at each size.
    scales = (above @ weights)[:, None] + SLOPES * (steps @ weights)
    said = np.log(floor + np.exp(scales[:, :, None] - SLOPES[:, None] * steps))
    left = ((said - np.log(errors)[:, None, :]) / LUCK) ** 2 @ (weights * len(sizes))
    best = (left + ((SLOPES - usual[:, None]) / SLOPE_SPREAD) ** 2).argmin(axis=1)
    luck = LUCK / np.sqrt(len(sizes)) * np.append(0.0, random.normal(size=others))
    return np.column_stack([np.exp(scales[np.arange(len(errors)), best] + luck), SLOPES[best]])
