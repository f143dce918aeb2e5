"""How a regressor with some settings learns and is judged: on rows held out where layers are many, in folds where few.

A tenth of few layers would choose families and settings by luck. In folds every row is predicted by what learned from
the others, so that each counts, and what ships learns from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medn.core.metrics import best_constant, score
from medn.core.table import Array
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings
from medn.training.prepared import Prepared
from medn.training.tuning import unwatched

REFIT_SHARE = 0.25
"""Of the time of a trial in folds, kept for the fit on all rows that may follow."""

Tables = Mapping[str, Prepared]
"""By kind; all of them in folds, or none."""


@dataclass(frozen=True, eq=False)
class Learning:
    """What came of one kind."""

    log_values: Array
    """Logarithms of what is predicted of the rows that are chosen by, without having learned from them."""
    fitted: Fitted | None = None
    """None for rows in folds, until what ships is fitted on all of them."""
    steps: int | None = None
    """After how many steps the folds together err least; None for a family that knows no steps."""

    def error(self, prepared: Prepared) -> float:
        return score(np.exp(self.log_values), prepared.validation.target).mape


def learn(regressor: Regressor, tables: Tables, settings: Settings, effort: Effort) -> dict[str, Learning]:
    """By kind, as the rows of all of them are split."""
    if are_in_folds(tables):
        return _in_folds(regressor, tables, settings, effort)
    pairs = {kind: (prepared.train, prepared.validation) for kind, prepared in tables.items()}
    fitted = regressor.fit_together(pairs, settings, effort)
    return {
        kind: Learning(np.log(fitted[kind].predict(validation.inputs)), fitted[kind])
        for kind, (_, validation) in pairs.items()
    }


def are_in_folds(tables: Tables) -> bool:
    return all(prepared.folds is not None for prepared in tables.values())


def _in_folds(regressor: Regressor, tables: Tables, settings: Settings, effort: Effort) -> dict[str, Learning]:
    """Only the first fold reports how it gets on: errors of other folds do not compare with it."""
    folds = {kind: np.asarray(prepared.folds) for kind, prepared in tables.items()}
    log_values = {kind: np.empty(len(prepared.train)) for kind, prepared in tables.items()}
    count = max(int(own.max()) for own in folds.values()) + 1
    fitted: list[Mapping[str, Fitted]] = []
    for fold in range(count):
        pairs = {
            kind: (prepared.train.take(folds[kind] != fold), prepared.train.take(folds[kind] == fold))
            for kind, prepared in tables.items()
        }
        seconds = (effort.seconds_left - REFIT_SHARE * effort.seconds) / (count - fold)
        own = effort.part(max(seconds, 0.0))
        fitted.append(regressor.fit_together(pairs, settings, own if fold == 0 else replace(own, report=unwatched)))
        for kind, (_, held_out) in pairs.items():
            log_values[kind][folds[kind] == fold] = np.log(fitted[-1][kind].predict(held_out.inputs))
    return {kind: Learning(log_values[kind], steps=best_steps([each[kind] for each in fitted])) for kind in tables}


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


def shipped(
    regressor: Regressor, tables: Tables, settings: Settings, learned: Mapping[str, Learning], effort: Effort
) -> dict[str, Fitted]:
    """What ships: in folds a fit on all rows, with as many steps as were best for the folds; else what was learned."""
    if not are_in_folds(tables):
        return {kind: own.fitted for kind, own in learned.items() if own.fitted is not None}
    pairs = {kind: (prepared.train, prepared.train.take(np.arange(0))) for kind, prepared in tables.items()}
    steps = {own.steps for own in learned.values()}
    effort = replace(effort, steps=steps.pop() if len(steps) == 1 else None)
    return dict(regressor.fit_together(pairs, settings, effort))
