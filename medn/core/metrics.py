"""How far predictions are from measurements, always on the real scale.

Accuracy is 1 - MAPE: our reading of a word that the field uses without defining it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.bootstrap import mean_of_few_layers
from medn.core.table import Array


@dataclass(frozen=True)
class Scores:
    """Errors are shares, not per cent."""

    rows: int
    mape: float
    median: float
    p90: float
    within_5: float
    within_10: float
    r2: float | None
    r2_log: float | None
    spearman: float | None
    """None where all that was measured is alike."""
    mape_low: float | None = None
    mape_high: float | None = None
    """Between these the mean error of other layers lies, with the certainty of `medn.core.bootstrap`; None where nobody
    has asked, or where there is but one layer."""

    @property
    def accuracy(self) -> float:
        return 1.0 - self.mape

    def as_json(self) -> dict[str, float | None]:
        return asdict(self) | {"accuracy": self.accuracy}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Scores:
        known = {"mape_low": None, "mape_high": None, **written}  # an earlier version did not tell the interval
        found = cls(**{each.name: known[each.name] for each in fields(cls)})
        if None in (found.rows, found.mape, found.median, found.p90, found.within_5, found.within_10):
            raise ValueError("an error is missing among its scores")
        return found


def with_certainty(scores: Scores, predicted: Array, measured: Array, groups: NDArray[np.str_]) -> Scores:
    """The same with the interval of the mean error, by layers drawn again; rows of one group are of one layer."""
    found = mean_of_few_layers(relative_errors(predicted, measured), groups)
    return replace(scores, mape_low=found.low, mape_high=found.high) if found else scores


def relative_errors(predicted: Array, measured: Array) -> Array:
    return np.abs(predicted - measured) / measured


def score(predicted: Array, measured: Array) -> Scores:
    """All scores of one set of predictions.

    >>> round(score(np.array([1.1, 2.0]), np.array([1.0, 2.0])).mape, 3)
    0.05
    """
    errors = relative_errors(predicted, measured)
    return Scores(
        rows=len(errors),
        mape=float(errors.mean()),
        median=float(np.median(errors)),
        p90=float(np.quantile(errors, 0.9)),
        within_5=float((errors <= 0.05).mean()),
        within_10=float((errors <= 0.10).mean()),
        r2=_r2(predicted, measured),
        r2_log=_r2(np.log(predicted), np.log(measured)),
        spearman=_correlation(_ranks(predicted), _ranks(measured)),
    )


def best_constant(measured: Array) -> float:
    """The one number with the smallest mean relative error: the median, where small values weigh more.

    >>> best_constant(np.array([1.0, 2.0, 10.0]))
    1.0
    """
    ordered = np.sort(measured)
    weight = np.cumsum(1.0 / ordered)
    return float(ordered[np.searchsorted(weight, weight[-1] / 2)])


SAME_ERROR = 0.01
"""Errors this near are the same: where all values are alike nobody can beat one number."""


def has_learned(predicted: Array, measured: Array, constant: float | Array) -> bool:
    """Whether predictions are better than one number for everything, in the mean or at least typically.

    A mean may be spoilt by few rows; who is less than half as wrong for most rows has learned something.
    """
    own = relative_errors(predicted, measured)
    plain = relative_errors(np.broadcast_to(constant, len(measured)), measured)
    return bool(own.mean() <= plain.mean() + SAME_ERROR or np.median(own) < np.median(plain) / 2)


def _r2(predicted: Array, measured: Array) -> float | None:
    spread = float(((measured - measured.mean()) ** 2).sum())
    return 1.0 - float(((measured - predicted) ** 2).sum()) / spread if spread > 0 else None


def _ranks(values: Array) -> Array:
    """Ranks from 0, ties sharing their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    return np.asarray((last - (counts - 1) / 2)[places], dtype=np.float64)


def _correlation(first: Array, second: Array) -> float | None:
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])
