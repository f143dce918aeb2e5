"""Intervals for what ships, and how they did: calibrated on rows in range, each layer counting once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.intervals import LEVEL, Interval, calibrate, calibrate_in_folds, coverage, fit_spread
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.deployed.deployed import Answer, Deployed
from medn.deployed.facts import IntervalCoverage

ABSURD_WIDTH = 3.0
"""High less low, in predictions: a third to three times as long."""


class HeldOut(NamedTuple):
    """Rows with what was predicted of them by what had not learned from them."""

    log_value: Array
    measured: Array
    distance: Array
    """To what the prediction was learned from."""
    near: Flags
    """Whether a row lies where that was measured."""
    groups: NDArray[np.str_]

    def take(self, rows: Flags | slice) -> HeldOut:
        log_value, measured, distance, near, groups = self
        return HeldOut(log_value[rows], measured[rows], distance[rows], near[rows], groups[rows])

    @property
    def only_near(self) -> HeldOut:
        """All of them where none is. Far away rows would speak for those inside: there a widening is added."""
        return self.take(self.near) if self.near.any() else self


def calibrated(validation: HeldOut, calibration: HeldOut, level: float = LEVEL) -> Interval:
    """The interval that predictions call for.

    Where errors are large comes from validation rows, how large they are from calibration rows, which nothing was
    chosen by.
    """
    rows = validation.only_near
    spread = fit_spread(np.exp(rows.log_value), rows.measured, rows.distance)
    rows = calibration.only_near
    return calibrate(spread, np.exp(rows.log_value), rows.measured, rows.distance, level, rows.groups)


def calibrated_in_folds(rows: HeldOut, folds: NDArray[np.int8], level: float = LEVEL) -> Interval:
    """The same where every row is chosen and calibrated by, each predicted without its fold."""
    near = rows.only_near
    own = folds[rows.near] if rows.near.any() else folds
    return calibrate_in_folds(np.exp(near.log_value), near.measured, near.distance, near.groups, own, level)


def width_warning(what: str, width: float | None) -> str | None:
    """A sentence where intervals in range are so wide that they say next to nothing; None where they are not."""
    if width is None or width < ABSURD_WIDTH:
        return None
    return (
        f"the intervals of {what} are {width:.3g} times as wide as the predictions, also within what was measured: "
        "they say next to nothing. More layers, and more alike, would narrow them."
    )


def interval_coverage(deployed: Deployed, answer: Answer, measured: Array) -> IntervalCoverage:
    """How the intervals did on all rows, and on those in range; what lies outside is wide on purpose."""
    level = deployed.interval.guaranteed_level
    every = coverage(level, answer.value, answer.low, answer.high, measured)
    found = IntervalCoverage(level, every.rows, every.covered, every.mean_width)
    inside = answer.inside
    if not inside.any():
        return found
    own = coverage(level, *(each[inside] for each in (answer.value, answer.low, answer.high, measured)))
    return replace(found, inside_covered=own.covered, inside_width=own.mean_width)
