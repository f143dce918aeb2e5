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
from numpy.typing import NDArray

from medn.core.checking import LARGEST, LARGEST_LOG, check_numbers
from medn.core.table import Array

LEVEL = 0.9
SMALLEST_ERROR = 1e-4
FARTHEST = 3.0
FARTHEST_DISTANCE = 2.0
"""Standard deviations from the mean prediction, and distances, beyond which the spread does not change any more."""

FIRST_STEP = 0.25
"""Just beyond the range, intervals are wider by so much of what a whole power of e adds."""

WIDEST = math.log(100.0)
"""Beyond the range no interval reaches farther: what is off by more is not known at all."""

WIDEST_LOG = 200.0
"""An interval that reaches farther on the logarithmic scale was made up."""

SHRINKAGE = 10.0
"""How many rows say that the spread is the same everywhere, against those that say otherwise."""


FARTHER = 0.5
"""What the logarithm of the spread grows by more, for each distance, than the usual error does: far from what was
measured errors are not only larger, they also vary more, and a mean does not tell that."""

FEW_ROWS = 400
"""Up to twice as much where rows are few: so many of them tell half of what is to be known about errors far away."""

FEWEST_ROWS = 30
"""With fewer rows nobody knows where errors are larger: the spread is the same everywhere."""


@dataclass(frozen=True)
class Spread:
    """The usual relative error as a function of the predicted value and of the distance to what was measured."""

    centre: float
    scale: float
    """Mean and standard deviation of the logarithm of predictions."""
    weights: tuple[float, float, float, float]
    low: float
    high: float
    """Bounds of the logarithm of the spread: it is not trusted beyond what it was fitted on."""

    def at(self, log_value: Array, distance: Array | float) -> Array:
        place, near = self._terms(log_value, distance)
        constant, slope, curve, far = self.weights
        logarithm = constant + place * (slope + curve * place) + far * near
        found: Array = np.exp(np.clip(logarithm, self.low, self.high))
        return found

    def widest(self, first: Array, second: Array) -> Array:
        """The largest spread between two predictions, whose logarithms are given, at the edge of what was measured."""
        _, slope, curve, _ = self.weights
        turn = self.centre - self.scale * slope / (2 * curve) if curve else self.centre
        between = np.clip(turn, np.minimum(first, second), np.maximum(first, second))
        at_first, at_second, at_turn = (self.at(place, 1.0) for place in (first, second, between))
        return np.maximum(np.maximum(at_first, at_second), at_turn)

    def columns(self, log_value: Array, distance: Array) -> Array:
        """What the logarithm of the spread is a weighted sum of.

        A quadratic of the latency, as the shortest latencies are the noisiest and the longest the rarest.
        """
        place, near = self._terms(log_value, distance)
        return np.column_stack([np.ones(len(place)), place, place**2, near])

    def _terms(self, log_value: Array, distance: Array | float) -> tuple[Array, Array]:
        place = np.clip((log_value - self.centre) / self.scale, -FARTHEST, FARTHEST)
        return place, np.minimum(distance, FARTHEST_DISTANCE)


def log_errors(predicted: Array, measured: Array) -> Array:
    return np.asarray(np.abs(np.log(measured) - np.log(predicted)))


def fit_spread(predicted: Array, measured: Array, distance: Array) -> Spread:
    """Where errors are large and where they are small, by ridge regression of their logarithm."""
    predictions = np.log(predicted)
    unfitted = Spread(float(predictions.mean()), max(float(predictions.std()), 1e-6), (0.0,) * 4, 0.0, 0.0)
    columns = unfitted.columns(predictions, distance)
    errors = np.log(np.maximum(log_errors(predicted, measured), SMALLEST_ERROR))
    means = columns.mean(axis=0)
    centred = columns - means
    penalty = np.diag(SHRINKAGE * centred.var(axis=0) + 1e-9)
    slopes = np.linalg.solve(centred.T @ centred + penalty, centred.T @ (errors - errors.mean()))
    doubt = FEW_ROWS / (FEW_ROWS + len(predicted))
    slopes[3] = max(slopes[3], 0.0) + FARTHER * (1 + doubt)  # farther away nothing is known better
    if len(predicted) < FEWEST_ROWS:
        slopes[:] = 0.0
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


def coverage(level: float, predicted: Array, low: Array, high: Array, measured: Array) -> Coverage:
    return Coverage(
        level,
        len(measured),
        float(((measured >= low) & (measured <= high)).mean()),
        float(((high - low) / predicted).mean()),
    )


@dataclass(frozen=True)
class Interval:
    """Calibrated bounds: `quantile` times the spread on either side of the logarithm of the prediction."""

    level: float
    quantile: float
    calibration_rows: int
    spread: Spread
    calibration_layers: int | None = None
    """How many layers the calibration rows belong to; None where an earlier version counted rows alone."""
    widening: float | None = None
    """What is added to the width beyond the range, for each power of e; None where an earlier version added nothing."""

    @property
    def guaranteed_level(self) -> float:
        """What the number of calibration layers can promise: few of them cannot speak for a high level."""
        count = self.calibration_rows if self.calibration_layers is None else self.calibration_layers
        return min(self.level, count / (count + 1))

    def width(self, log_value: Array, distance: Array) -> Array:
        """What lies on either side of the logarithm of a prediction inside the range."""
        return self.quantile * self.spread.at(log_value, distance)

    def width_beyond(self, edge: Array, log_value: Array, distance: Array, far: Array) -> Array:
        """The same outside: as wide as anywhere on the way from the edge, and wider the farther away."""
        if self.widening is None:
            return self.width(log_value, distance)
        widest = self.width_at_edge(edge, log_value)
        return np.minimum(widest + self.widening * (far + FIRST_STEP), WIDEST)

    def width_at_edge(self, edge: Array, log_value: Array) -> Array:
        """The largest width inside the range of predictions from that at its edge to this one."""
        return self.quantile * self.spread.widest(edge, log_value)

    def bounds(self, predicted: Array, distance: Array) -> tuple[Array, Array]:
        """Low and high inside the range, in seconds."""
        factor = np.exp(self.width(np.log(predicted), distance))
        return predicted / factor, predicted * factor

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Interval:
        spread = dict(written["spread"])
        spread["weights"] = tuple(spread["weights"])
        found = cls(**{**written, "spread": Spread(**spread)})
        found.check()
        return found

    def check(self) -> None:
        """That every width it gives is one. Raises a ValueError that says why not."""
        spread = self.spread
        check_numbers("the level of an interval", [self.level], 1e-6, 1 - 1e-6)
        check_numbers("the quantile of an interval", [self.quantile], 0.0, LARGEST)
        since = [each for each in (self.calibration_layers, self.widening) if each is not None]
        check_numbers("the calibration of an interval", [self.calibration_rows, *since], 0, 1e12)
        check_numbers("the spread of an interval", [spread.centre, *spread.weights])
        check_numbers("the scale of a spread", [spread.scale], 1e-30, 1e30)
        check_numbers("the bounds of a spread", [spread.low], -LARGEST, LARGEST_LOG)
        check_numbers("the bounds of a spread", [spread.high], spread.low, LARGEST_LOG)
        if len(spread.weights) != 4:
            raise ValueError("the spread of an interval must have 4 weights")
        if self.quantile * math.exp(spread.high) > WIDEST_LOG:
            raise ValueError(f"an interval must not reach farther than e to the power of {WIDEST_LOG:g}")


def calibrate(
    spread: Spread,
    predicted: Array,
    measured: Array,
    distance: Array,
    level: float = LEVEL,
    groups: NDArray[np.str_] | None = None,
) -> Interval:
    """The interval that covers `level` of the rows of layers like these; rows of one group are rows of one layer.

    >>> predicted, distance = np.ones(99), np.zeros(99)
    >>> spread = Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)
    >>> round(calibrate(spread, predicted, np.exp(np.arange(1, 100) / 100), distance).quantile, 2)
    0.9
    """
    scores = log_errors(predicted, measured) / spread.at(np.log(predicted), distance)
    layers = np.arange(len(scores)).astype(str) if groups is None else groups
    return Interval(level, conformal_quantile(scores, layers, level), len(scores), spread, len(np.unique(layers)))


def calibrate_in_folds(
    predicted: Array,
    measured: Array,
    distance: Array,
    groups: NDArray[np.str_],
    folds: NDArray[np.int8],
    level: float = LEVEL,
) -> Interval:
    """The same from out-of-fold predictions: every row counts, by a spread that its own fold had no part in."""
    scores = np.empty(len(predicted))
    for fold in np.unique(folds):
        own, others = folds == fold, folds != fold
        spread = fit_spread(*(each[others] if others.any() else each for each in (predicted, measured, distance)))
        scores[own] = log_errors(predicted[own], measured[own]) / spread.at(np.log(predicted[own]), distance[own])
    quantile = conformal_quantile(scores, groups, level)
    spread = fit_spread(predicted, measured, distance)
    return Interval(level, quantile, len(scores), spread, len(np.unique(groups)))


def conformal_quantile(scores: Array, groups: NDArray[np.str_], level: float) -> float:
    """The score that a row of a new group exceeds with a probability of at most 1 - level.

    Rows of one group err alike, so each group counts once, its rows sharing its weight, and the group to come counts
    as one more (hierarchical conformal prediction). Where groups are too few to promise the level: the largest score.
    """
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = scores.argsort()
    weight = np.cumsum(1 / counts[places][order])
    rank = int(np.searchsorted(weight, level * (len(counts) + 1) * (1 - 1e-12)))
    return float(scores[order[min(rank, len(scores) - 1)]])
