"""Intervals for what ships, and how they did: calibrated on rows in range, each layer counting once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.intervals import LEVEL, Interval, Spread, calibrate, calibrate_in_folds, coverage, fit_spread
from medn.core.ranges import Flags
from medn.core.table import Array, Table
from medn.deployed.deployed import Answer, Deployed
from medn.deployed.facts import IntervalCoverage

ABSURD_WIDTH = 3.0
"""High less low, in predictions: a third to three times as long."""

UNCALIBRATED = Interval(LEVEL, 0.0, 0, Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0))
"""Stands in for the interval of what is not calibrated yet: no width at all."""


def calibrated(deployed: Deployed, validation: Table, calibration: Table, level: float = LEVEL) -> Deployed:
    """The same with the interval that its own predictions call for.

    Where errors are large comes from validation rows, how large they are from calibration rows, which nothing was
    chosen by. Rows outside the range have a widening of their own: far away they would speak for those inside.
    """
    rows = _rows(deployed, validation)
    spread = fit_spread(rows.predicted, rows.measured, rows.distance)
    rows = _rows(deployed, calibration)
    interval = calibrate(spread, rows.predicted, rows.measured, rows.distance, level, rows.groups)
    return replace(deployed, interval=interval)


def calibrated_in_folds(
    deployed: Deployed,
    table: Table,
    out_of_fold: Array,
    distance: Array,
    folds: NDArray[np.int8],
    level: float = LEVEL,
) -> Deployed:
    """The same from predictions that were made without the fold of each row, as are the distances of the rows."""
    kept = _any_or_all(distance <= 1.0)
    rows = table.take(kept)
    interval = calibrate_in_folds(
        np.exp(out_of_fold[kept]), rows.target, distance[kept], rows.groups, folds[kept], level
    )
    return replace(deployed, interval=interval)


class _Rows(NamedTuple):
    predicted: Array
    measured: Array
    distance: Array
    groups: NDArray[np.str_]


def _rows(deployed: Deployed, table: Table) -> _Rows:
    distance, inside = deployed.range.place(table.inputs)
    kept = _any_or_all(inside)
    rows = table.take(kept)
    return _Rows(deployed.predict(rows.inputs), rows.target, distance[kept], rows.groups)


def _any_or_all(near: Flags) -> Flags:
    """The rows that are near what was measured; all of them where none is."""
    return near if near.any() else np.ones_like(near)


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
    level = deployed.interval.level
    every = coverage(level, answer.value, answer.low, answer.high, measured)
    found = IntervalCoverage(level, every.rows, every.covered, every.mean_width)
    inside = answer.inside
    if not inside.any():
        return found
    own = coverage(level, *(each[inside] for each in (answer.value, answer.low, answer.high, measured)))
    return replace(found, inside_covered=own.covered, inside_width=own.mean_width)
