"""How a regressor with some settings learns and is judged: on rows held out where layers are many, in folds where few.

A tenth of few layers would choose families and settings by luck. In folds every row is predicted by what learned from
the others, so that each counts. Either way what was predicted of rows that were held out is kept to choose and to
calibrate by, and what ships learns from them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from medn.core.metrics import best_constant, score
from medn.core.splits import Rows
from medn.core.table import Array, Table
from medn.deployed.beyond import Beyond
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings
from medn.training.extrapolation import beyond, usual_way
from medn.training.prepared import Prepared, RangeEdge

REFIT_SHARE = 0.25
"""Of the time of a trial in folds, kept for the fit on all rows that may follow."""

UNREPORTED = Effort().report

Tables = Mapping[str, Prepared]
"""By kind; all of them in folds, or none."""


@dataclass(frozen=True, eq=False)
class Exported(Fitted):
    """What was fitted, without the library that did: another process can go on with it."""

    form: Form
    step_errors: tuple[float, ...] = ()

    def predict(self, inputs: Array) -> Array:
        return self.form.predict(inputs)

    def export(self) -> Form:
        return self.form


class FarRows(NamedTuple):
    """Rows of a fold beyond the others, and what is said of them in every way that they can be predicted."""

    rows: Rows
    said: Beyond


@dataclass(frozen=True, eq=False)
class Learning:
    """What came of one kind."""

    log_values: Array
    """Logarithms of what is predicted of the rows that are chosen by, without having learned from them."""
    fitted: Fitted | None = None
    """What said so; None for rows in folds, where several did."""
    steps: int | None = None
    """After how many steps these rows err least, those of all folds together; None for a family without steps."""
    far: tuple[FarRows, ...] = ()
    """Of rows in folds those that lie beyond what their prediction comes from."""

    def error(self, prepared: Prepared) -> float:
        return score(np.exp(self.log_values), prepared.validation.target).mape

    def held_out(self, prepared: Prepared, way: str) -> Array:
        """Logarithms of what is predicted of all rows held out, as it would ship: in this way beyond the range."""
        if self.fitted is None:
            return _far_in(self.log_values, self.far, way)
        inputs, (distance, inside) = prepared.held_out.inputs, prepared.held_out_place
        logs = np.log(self.fitted.predict(inputs))
        outside = ~inside
        if outside.any():
            far = beyond(self.fitted, inputs[outside], distance[outside], prepared.edge)
            logs[outside] = far.log_value(way)
        return np.asarray(logs)


def learn(regressor: Regressor, tables: Tables, settings: Settings, effort: Effort) -> dict[str, Learning]:
    """By kind, as the rows of all of them are split."""
    if are_in_folds(tables):
        return _in_folds(regressor, tables, settings, effort)
    pairs = {kind: (prepared.train, prepared.validation) for kind, prepared in tables.items()}
    fitted = regressor.fit_together(pairs, settings, effort)
    return {
        kind: Learning(np.log(own.predict(pairs[kind][1].inputs)), own, best_steps([own]))
        for kind, own in fitted.items()
    }


def are_in_folds(tables: Tables) -> bool:
    return all(prepared.folds is not None for prepared in tables.values())


def _in_folds(regressor: Regressor, tables: Tables, settings: Settings, effort: Effort) -> dict[str, Learning]:
    """Only the first fold reports how it gets on: errors of other folds do not compare with it."""
    folds = {kind: np.asarray(prepared.folds) for kind, prepared in tables.items()}
    log_values = {kind: np.empty(len(prepared.train)) for kind, prepared in tables.items()}
    far: dict[str, list[FarRows]] = {kind: [] for kind in tables}
    count = max(int(own.max()) for own in folds.values()) + 1
    fitted: list[Mapping[str, Fitted]] = []
    for fold in range(count):
        pairs = {
            kind: (prepared.train.take(folds[kind] != fold), prepared.train.take(folds[kind] == fold))
            for kind, prepared in tables.items()
        }
        seconds = (effort.seconds_left - REFIT_SHARE * effort.seconds) / (count - fold)
        own = effort.part(max(seconds, 0.0))
        fitted.append(regressor.fit_together(pairs, settings, own if fold == 0 else replace(own, report=UNREPORTED)))
        for kind, (_, held_out) in pairs.items():
            rows = np.flatnonzero(folds[kind] == fold)
            log_values[kind][rows] = np.log(fitted[-1][kind].predict(held_out.inputs))
            far[kind] += _far_rows(fitted[-1][kind], held_out.inputs, rows, tables[kind].fold_edges[fold])
    return {
        kind: Learning(
            # A way that the quantity sets is not learned, so it says nothing of the fit.
            log_values[kind] if prepared.way else _far_in(log_values[kind], far[kind], usual_way(regressor)),
            steps=best_steps([each[kind] for each in fitted]),
            far=tuple(far[kind]),
        )
        for kind, prepared in tables.items()
    }


def _far_rows(fitted: Fitted, inputs: Array, rows: Rows, edge: RangeEdge) -> list[FarRows]:
    """Of the rows of one fold; nothing where none is beyond the others."""
    distance, inside = edge.range.place(inputs)
    outside = ~inside
    if not outside.any():
        return []
    return [FarRows(rows[outside], beyond(fitted, inputs[outside], distance[outside], edge))]


def _far_in(log_values: Array, far: Iterable[FarRows], way: str) -> Array:
    """The same values, those beyond what their prediction comes from as they would ship."""
    found = log_values.copy()
    for rows, said in far:
        found[rows] = said.log_value(way)
    return found


def constant_values(prepared: Prepared) -> Array:
    """What one number for every layer says of the rows that are chosen by, without having learned from them."""
    if prepared.folds is None:
        return np.full(len(prepared.validation), best_constant(prepared.train.target))
    values = np.empty(len(prepared.train))
    for fold in np.unique(prepared.folds):
        own = prepared.folds == fold
        values[own] = best_constant(prepared.train.target[~own])
    return values


def best_steps(fitted: Sequence[Fitted]) -> int | None:
    """Where the mean error of all folds is lowest; a fold that stopped early would have stayed about at its best."""
    errors = [each.step_errors for each in fitted if each.step_errors]
    if not errors:
        return None
    longest = max(map(len, errors))
    padded = [np.append(own, np.full(longest - len(own), min(own))) for own in errors]
    return int(np.mean(padded, axis=0).argmin()) + 1


def refit(
    regressor: Regressor, tables: Mapping[str, Table], settings: Settings, steps: Collection[int | None], effort: Effort
) -> dict[str, Fitted]:
    """What ships: a fit on all rows of each kind, with as many steps as were best for those that were held out."""
    pairs = {kind: (table, table.take(np.arange(0))) for kind, table in tables.items()}
    alike = set(steps)
    effort = replace(effort, steps=alike.pop() if len(alike) == 1 else None)
    return dict(regressor.fit_together(pairs, settings, effort))
