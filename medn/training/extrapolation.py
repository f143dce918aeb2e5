"""How a regressor does on layers with more work than any it learned from.

The same settings are fitted once more on the rows with the least work; held-out rows above them say what to predict
beyond the range, how wide intervals are there, and how wrong that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.learn_range import learn_range
from medn.core.ranges import WORK_COLUMNS
from medn.core.splits import some_layers
from medn.core.table import Array, Table
from medn.deployed.beyond import BOUNDED, HELD, Beyond, seen_from_the_edge
from medn.deployed.checked import Checked, Larger, Taken, unpack_checked
from medn.regressors.families.roofline import plain_roofline
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors
from medn.runs.inputs import remainders
from medn.training.prepared import Prepared, RangeEdge, Smaller

LEAST_WORK = 0.7
"""The share of training rows that is learned from."""

CHECKED_ROWS = 4000
"""Of very many rows so many are learned from: how a family goes on beyond them shows as well."""

FEWEST_ROWS = 8
"""With fewer rows on either side the error says nothing."""

PARTS = ("validation", "calibration", "test")


@dataclass(frozen=True, eq=False)
class Halves:
    """One kind cut in two by the work of its layers."""

    train: Table
    validation: Table
    larger: Mapping[str, Table]
    """By part: rows above what is learned from."""
    above: float
    """The work up to which is learned."""

    @property
    def is_enough(self) -> bool:
        larger = sum(map(len, self.larger.values()))
        return min(len(self.train), len(self.validation), larger) >= FEWEST_ROWS


def work(table: Table) -> Array:
    """How much there is to do in each row: FLOPs, else bytes, else all sizes multiplied."""
    for name in WORK_COLUMNS:
        if name in table.schema.names:
            return table.column(name)
    sizes = [1.0 + np.abs(table.column(name)) for name in table.schema.numeric]
    return np.asarray(np.prod(sizes, axis=0)) if sizes else np.ones(len(table))


def cut(prepared: Prepared) -> Halves:
    above = float(np.quantile(work(prepared.train), LEAST_WORK))
    learned, stopped_by, parts = prepared.train, prepared.validation, {name: getattr(prepared, name) for name in PARTS}
    if prepared.folds is not None:
        # All larger rows are unseen here, so no row need be judged by what learned from the other folds.
        first, odd = prepared.folds == 0, prepared.folds % 2 == 1
        learned, stopped_by = prepared.train.take(~first), prepared.train.take(first)
        parts |= {"validation": prepared.train.take(~odd), "calibration": prepared.train.take(odd)}
    train, validation = (part.take(work(part) <= above) for part in (learned, stopped_by))
    return Halves(train, validation, {name: part.take(work(part) > above) for name, part in parts.items()}, above)


def made_ready(prepared: Prepared, seed: int) -> Prepared:
    """The same with what all families share: ranges, the roofline, and what is known of the smaller rows alone."""
    halves = cut(prepared)
    smaller = None
    if halves.is_enough:
        known = learn_range(halves.train, halves.validation, seed, remainders(prepared.source.layer_kind))
        # Larger rows are what the check is about: those a little beyond the smaller ones count as outside too.
        known = replace(known, slack=0.0)
        smaller = Smaller(halves.above, RangeEdge(known, fitted_roofline(halves.train, seed)))
    roofline = fitted_roofline(prepared.train, seed)
    shipped = roofline if prepared.folds is not None else fitted_roofline(prepared.learned, seed)
    ready = replace(prepared, roofline=roofline, shipped_roofline=shipped, smaller=smaller)
    if prepared.folds is not None:
        others = [prepared.train.take(prepared.folds != fold) for fold in range(int(prepared.folds.max()) + 1)]
        ready = replace(ready, fold_rooflines=tuple(fitted_roofline(each, seed) for each in others))
    ready.work_out()
    return ready


def fitted_roofline(train: Table, seed: int) -> Form | None:
    """None where it cannot be fitted."""
    return None if regressors["roofline"].missing() else plain_roofline(train, Effort(seed=seed))


def checked_share(rows: int) -> float:
    """Of so many rows, what share of those with the least work is learned from."""
    return min(CHECKED_ROWS / max(LEAST_WORK * rows, 1.0), 1.0)


def check(
    regressor: Regressor, tables: Mapping[str, Prepared], settings: Settings, effort: Effort
) -> dict[str, Checked]:
    """By kind, what the regressor says of larger rows; a kind with too few rows on either side is left out."""
    smaller = {kind: prepared.smaller for kind, prepared in tables.items() if prepared.smaller}
    if not smaller:
        return {}
    halves = {kind: cut(tables[kind]) for kind in smaller}
    pairs = {
        kind: (some_layers(each.train, CHECKED_ROWS, effort.seed), each.validation) for kind, each in halves.items()
    }
    fitted = regressor.fit_together(pairs, settings, effort)
    return {
        kind: {part: _larger(table, fitted[kind], known.edge) for part, table in halves[kind].larger.items()}
        for kind, known in smaller.items()
    }


def _larger(table: Table, fitted: Fitted, edge: RangeEdge) -> Larger:
    distance, inside = edge.range.place(table.inputs)
    return Larger(beyond(fitted, table.inputs, distance, edge), ~inside, *_taken(table))


def usual_way(regressor: Regressor) -> str:
    """What a family predicts beyond the range before any check."""
    return BOUNDED if regressor.extrapolates else HELD


def beyond(fitted: Fitted, inputs: Array, distance: Array, edge: RangeEdge) -> Beyond:
    """What a fitted regressor says of rows beyond what it learned from, in every way that they can be predicted."""
    roofline = edge.roofline.log_value if edge.roofline else None
    return seen_from_the_edge(inputs, distance, edge.range, lambda rows: np.log(fitted.predict(rows)), roofline)


def restored(arrays: Mapping[str, NDArray[Any]], prepared: Prepared) -> Checked | None:
    """The check of a candidate that was saved; None if it had none, or one that another version cut elsewhere."""
    try:
        return unpack_checked(arrays, {part: _taken(table) for part, table in cut(prepared).larger.items()})
    except (KeyError, ValueError):
        return None


def _taken(table: Table) -> Taken:
    return np.log(table.target), table.groups
