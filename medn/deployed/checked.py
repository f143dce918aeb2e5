"""What a check on larger layers says: which way to predict beyond the range, how wrong that is, and how wide to be.

A regressor that learned from the smaller layers alone predicts larger ones, in every way there is. The way is chosen on
validation rows, the widening is calibrated on validation and calibration rows, and errors are told on test rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.intervals import FIRST_STEP, WIDEST, Interval, conformal_quantile
from medn.core.metrics import score
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.deployed.beyond import BOUNDED, HELD, OWN, Beyond
from medn.deployed.facts import Extrapolation
from medn.deployed.packing import Arrays

CHECKED_WAYS = (HELD, OWN, BOUNDED)

DOUBT = 0.1
"""How much larger the error of logarithms must be before a family does not do what it does by default. A check is near
the edge, where a flat form is often right, as small layers take little more than their overhead; far away it is not."""

FEWEST_LAYERS = 4
"""With fewer of them beyond the range nothing is decided by a check."""

USUAL_WIDENING = 0.25
"""What intervals widen by where no check says it."""

LEAST_WIDENING = 0.1
"""Intervals always grow with the distance: a check sees how far the largest layers are, and not what lies beyond."""


@dataclass(frozen=True, eq=False)
class Larger:
    """Rows with more work than a regressor learned from, and what they took."""

    beyond: Beyond
    outside: Flags
    """Those beyond the range of what it learned from; for all others there is one way only."""
    measured: Array
    """Logarithms."""
    groups: NDArray[np.str_]

    def log_value(self, way: str) -> Array:
        return np.where(self.outside, self.beyond.log_value(way), self.beyond.own)

    def errors(self, way: str) -> Array:
        return np.abs(np.expm1(self.log_value(way) - self.measured))

    def take(self, rows: Flags) -> Larger:
        return Larger(self.beyond.take(rows), self.outside[rows], self.measured[rows], self.groups[rows])

    @property
    def only_outside(self) -> Larger:
        return self.take(self.outside)

    @property
    def layers(self) -> int:
        return len(np.unique(self.groups))


Taken = tuple[Array, NDArray[np.str_]]
"""Logarithms of what was measured, and layers."""

Checked = Mapping[str, Larger]
"""By part: validation, calibration, test."""


def mixed(members: Mapping[str, Checked], weights: Mapping[str, float]) -> Checked:
    """What an ensemble says: means of logarithms, since its form is the mean of theirs."""
    first, shares = next(iter(members.values())), np.array([weights[name] for name in members])
    found = {}
    for part, larger in first.items():
        said = [each[part].beyond for each in members.values()]
        own, edge = shares @ [each.own for each in said], shares @ [each.edge for each in said]
        found[part] = replace(larger, beyond=replace(larger.beyond, own=own, edge=edge))
    return found


def chosen_way(checked: Checked | None, default: str) -> str:
    """The way with the smallest error on the validation rows beyond the range; the default where they are too few.

    Errors are those of logarithms: a tenth of a latency is as wrong as ten times it.
    """
    if checked is None:
        return default
    rows = checked["validation"].only_outside
    if rows.layers < FEWEST_LAYERS:
        return default
    found = {way: float(np.abs(rows.log_value(way) - rows.measured).mean()) for way in CHECKED_WAYS}
    errors = {way: error if np.isfinite(error) else np.inf for way, error in found.items()}
    errors[default] -= DOUBT
    return min(errors, key=lambda way: (round(errors[way], 6), way == OWN))


def widening(checked: Checked | None, way: str, interval: Interval) -> float:
    """What to add to an interval beyond the range for each power of e, so that it holds its level on larger rows."""
    if checked is None:
        return USUAL_WIDENING
    parts = [checked[part].only_outside for part in ("validation", "calibration")]
    if sum(part.layers for part in parts) < FEWEST_LAYERS:
        return USUAL_WIDENING
    needed = []
    for part in parts:
        logs = part.log_value(way)
        lacking = np.abs(logs - part.measured) - interval.width_at_edge(part.beyond.edge, logs)
        lacking = np.clip(np.nan_to_num(lacking, nan=WIDEST), 0.0, WIDEST)
        needed.append(lacking / (part.beyond.far + FIRST_STEP))
    groups = np.concatenate([part.groups for part in parts])
    return max(conformal_quantile(np.concatenate(needed), groups, interval.level), LEAST_WIDENING)


def extrapolation(checked: Checked | None, way: str, interval: Interval) -> Extrapolation | None:
    """How wrong what ships is on test rows above what was learned from, and how wrong the other ways are."""
    if checked is None or not len(checked["test"].measured):
        return None
    rows = checked["test"]
    found = Extrapolation(
        score(np.exp(rows.log_value(way)), np.exp(rows.measured)),
        way,
        float(rows.outside.mean()),
        *(float(rows.errors(each).mean()) for each in CHECKED_WAYS),
    )
    outside = rows.only_outside
    if not len(outside.measured):
        return found
    logs = outside.log_value(way)
    width = interval.width_beyond(outside.beyond.edge, logs, np.ones(len(logs)), outside.beyond.far)
    covered = float((np.abs(outside.measured - logs) <= width).mean())
    return replace(found, covered=covered, width=float((2 * np.sinh(width)).mean()))


def pack_checked(checked: Checked) -> Arrays:
    """What a regressor said; what the rows took is known from the table."""
    return {
        f"{part}.{name}": np.asarray(array, dtype=np.float32)
        for part, larger in checked.items()
        for name, array in {**_columns(larger.beyond), "outside": larger.outside}.items()
    }


def unpack_checked(arrays: Mapping[str, NDArray[Any]], measured: Mapping[str, Taken]) -> Checked:
    """What `pack_checked` took apart, with what the rows of each part took."""
    found = {}
    for part, (logs, groups) in measured.items():
        columns = {each.name: arrays[f"{part}.{each.name}"].astype(np.float64) for each in fields(Beyond)}
        found[part] = Larger(Beyond(**columns), arrays[f"{part}.outside"] > 0, logs, groups)
        if any(len(column) != len(logs) for column in columns.values()):
            raise ValueError(f"the check of {part} was of other rows")
    return found


def _columns(beyond: Beyond) -> dict[str, Array]:
    return {each.name: getattr(beyond, each.name) for each in fields(beyond)}
