"""From the X and y of scikit-learn to what regressors learn from, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from medn.core.errors import UsageError, unknown
from medn.core.ranges import WORK_COLUMNS
from medn.core.table import Array

TARGETS = ("auto", "log", "plain")

SPREAD = 0.25
"""The standard deviation of plain targets on the scale of logarithms: so small that relative errors there are about the
absolute ones of the target, and large enough for the settings of families, which were chosen for logarithms."""

LARGEST = 1e30
"""Inputs are kept in single precision, which ends not far beyond; what is smaller than one of these counts as 0."""

LARGEST_TARGET = 1e300


class EstimatorError(UsageError, ValueError):
    """A mistake of the caller: for scikit-learn a ValueError, for medn one sentence."""


@dataclass(frozen=True)
class TargetScale:
    """How a target becomes a positive number, whose logarithm is what regressors learn.

    >>> scale = TargetScale.of(np.array([-1.0, 0.0, 3.0]), "auto")
    >>> scale.is_log, scale.values(np.log(scale.learned(np.array([-1.0, 3.0])))).round(9).tolist()
    (False, [-1.0, 3.0])
    """

    is_log: bool
    centre: float
    unit: float = 1.0

    @classmethod
    def of(cls, target: Array, how: str) -> TargetScale:
        """`auto` takes logarithms where all targets are above 0, and the targets as they are anywhere else."""
        if how not in TARGETS:
            raise EstimatorError(unknown("target", how, TARGETS))
        lowest, furthest = float(target.min()), float(np.abs(target).max())
        if furthest > LARGEST_TARGET:
            raise EstimatorError(f"y: targets must lie within {LARGEST_TARGET:g} of 0 (the furthest is {furthest:g})")
        if how == "log" and not lowest > 0:
            raise EstimatorError(
                f"target='log': every target must be above 0 (the lowest is {lowest:g}); 'plain' takes any number"
            )
        if lowest > 0 and how != "plain":
            return cls(True, float(np.log(target).mean()))
        share = target / (furthest or 1.0)  # whose squares are finite
        spread = furthest * float(share.std())
        return cls(False, furthest * float(share.mean()), spread / SPREAD if spread > 0 else 1.0)

    def learned(self, target: Array) -> Array:
        logs = np.log(target) if self.is_log else target
        return np.asarray(np.exp((logs - self.centre) / self.unit))

    def values(self, logs: Array) -> Array:
        """Targets from the logarithms that were predicted."""
        plain = self.centre + self.unit * np.asarray(logs, dtype=np.float64)
        return np.asarray(np.exp(np.minimum(plain, np.log(np.finfo(float).max)))) if self.is_log else plain


def column_names(given: Sequence[Any] | None, count: int) -> list[str]:
    """Names that mean nothing to medn, but for the two columns that tell the work: rooflines learn from these.

    >>> column_names(["flops", "device", "moved_bytes"], 3), column_names(None, 1)
    (['flops', 'x1', 'moved_bytes'], ['x0'])
    """
    names = [f"x{place}" for place in range(count)]
    if given is None or not set(WORK_COLUMNS) <= set(given):
        return names
    return [str(own) if own in WORK_COLUMNS else name for own, name in zip(given, names, strict=True)]


def rounded(inputs: Array) -> Array:
    """The same as deployed forms see them: numbers that fit single precision."""
    if np.abs(inputs).max(initial=0.0) > LARGEST:
        raise EstimatorError(f"X: numbers must lie within {LARGEST:g} of 0 (the largest is {np.abs(inputs).max():g})")
    return np.where(np.abs(inputs) < 1 / LARGEST, 0.0, inputs).astype(np.float32).astype(np.float64)
