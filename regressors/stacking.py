"""Weights for what other devices take: a linear law in logarithms, drawn towards a simple one as much as rows ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned
from medn.regressors.forms.stack import Stack
from medn.regressors.regressor import Effort, Fitted, Settings
from medn.regressors.sources import beside, beside_inputs, sources_of

STRENGTHS = (*np.geomspace(0.03, 1e4, 12), np.inf)
"""How much the weights are held to the simple law; without end, nothing but a constant is learned."""

ROBUST = 1.5
ROUNDS = 2
"""A row that is off by more than so many median errors counts less, in so many rounds: one layer that a library runs in
another way must not tilt all others."""

SMALLEST = 1e-9

TEMPERATURE = 0.25
"""A source counts less by a factor of e for so much more error, as a share of the least."""


@dataclass(frozen=True, eq=False)
class Restrained:
    """A constant and weights beside those that were given, and how far each row is off without itself."""

    weights: Array
    constant: float
    left_out: Array


class StackingLaw(NamedTuple):
    weights: Array
    constant: float


def restrained(columns: Array, residuals: Array) -> Restrained:
    """The ridge regression of residuals on columns, with the strength that predicts rows best that were left out."""
    counts = np.ones(len(residuals))
    law = _strongest(columns, residuals, counts)
    for _ in range(ROUNDS):
        usual = max(float(np.median(np.abs(law.left_out))), SMALLEST)
        counts = np.minimum(1.0, ROBUST * usual / np.maximum(np.abs(law.left_out), SMALLEST))
        law = _strongest(columns, residuals, counts)
    return law


def _strongest(columns: Array, residuals: Array, counts: Array) -> Restrained:
    share = counts / counts.sum()
    middle, level = share @ columns, float(share @ residuals)
    root = np.sqrt(counts)
    left, size, right = np.linalg.svd(root[:, None] * (columns - middle), full_matrices=False)
    seen = left.T @ (root * (residuals - level))
    best: Restrained | None = None
    for strength in STRENGTHS:
        shrunk = size / (size**2 + strength) if np.isfinite(strength) else np.zeros_like(size)
        weights = right.T @ (shrunk * seen)
        off = residuals - level - (columns - middle) @ weights
        leverage = share + np.einsum("ij,j,ij->i", left, shrunk * size, left)
        left_out = off / np.maximum(1.0 - leverage, 1e-3)
        found = Restrained(weights, level - float(middle @ weights), left_out)
        if best is None or _error(left_out) < _error(best.left_out):
            best = found
    assert best is not None, "there are strengths to choose from"
    return best


def _error(left_out: Array) -> float:
    return float(np.abs(np.expm1(np.clip(left_out, -5.0, 5.0))).mean())


def drawn_to(columns: Array, targets: Array, laws: Sequence[ArrayLike], singles: ArrayLike) -> StackingLaw:
    """Weights for columns and a constant: the mean of as many ridge regressions as there are simple laws to draw them
    to. Beside those that are given, it is the mean of single ones that count by how much each tells of the rows.

    Which law is best few rows cannot say: the mean of all is nearly as good as the best of them.
    """
    simple = [np.asarray(law) for law in (*laws, _alike(columns, targets, np.asarray(singles)))]
    fits = [restrained(columns, targets - columns @ law) for law in simple]
    weights = np.mean([law + fit.weights for law, fit in zip(simple, fits, strict=True)], axis=0)
    return StackingLaw(weights, float(np.mean([fit.constant for fit in fits])))


def _alike(columns: Array, targets: Array, singles: Array) -> Array:
    """The mean of laws, those counting more that are nearly right but for a factor."""
    off = targets[:, None] - columns @ singles.T
    errors = np.array([_error(own - np.median(own)) for own in off.T])
    shares = np.exp(-(errors / max(errors.min(), SMALLEST) - 1.0) / TEMPERATURE)
    return np.asarray(shares @ singles / shares.sum())


def stacked(train: Table) -> Stack:
    """All sources, drawn towards their mean, towards those most alike, and towards what a data sheet says."""
    sources, logs = sources_of(train)
    law = drawn_to(logs, np.log(train.target), sources.known_laws, sources.single_laws)
    return Stack(sources, law.weights.tolist(), law.constant)


def single_source(train: Table) -> Stack:
    """The one source that tells most of the rows, or what a data sheet says, with a factor and a power of its
    seconds."""
    sources, logs = sources_of(train)
    targets, laws = np.log(train.target), [np.array(law) for law in sources.single_laws]
    fits = [restrained((logs @ law)[:, None], targets - logs @ law) for law in laws]
    law, fit = min(zip(laws, fits, strict=True), key=lambda each: _error(each[1].left_out))
    needed = np.flatnonzero(law).tolist()
    return Stack(sources.only(needed), (law[needed] * (1.0 + float(fit.weights[0]))).tolist(), fit.constant)


Fit = Callable[[Table, Table, Settings, Effort], Fitted]


def fit_on_stack(fit: Fit, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
    """What a family learns of the ratio to all sources stacked."""
    return fit_on(stacked(train), fit, train, validation, settings, effort)


def fit_on(stack: Stack, fit: Fit, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
    """What a family learns of the ratio to a stack; it sees what every source says beside the inputs. The sources of
    the stack are those of the tables, and what it may have behind them."""

    def ratios(table: Table) -> Table:
        sources, logs = sources_of(table)
        if behind := range(len(sources.names), len(stack.sources.names)):
            logs = np.hstack([logs, stack.sources.only(behind).logs(table.inputs)])
        known = replace(table, sources=stack.sources, source_logs=logs)
        return replace(
            beside_inputs(known), target=table.target / np.exp(stack.from_logs(table.inputs, sources_of(known)[1]))
        )

    learned = fit(ratios(train), ratios(validation), settings, effort)

    def log_value(inputs: Array) -> Array:
        logs = stack.sources.logs(inputs)
        return np.asarray(stack.from_logs(inputs, logs) + np.log(learned.predict(beside(inputs, logs))))

    return Learned(
        log_value,
        lambda: Stack(stack.sources, stack.weights, stack.constant, learned.export()),
        learned.step_errors,
    )
