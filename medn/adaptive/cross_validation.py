"""Errors on layers that were not learned from, with several numbers of layers to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.adaptive.quick_fit import QuickFit
from medn.core.metrics import relative_errors
from medn.core.table import Array, Table

FOLDS = 4
SHARES = (0.25, 0.5, 1.0)
"""Of the layers of all folds but one."""

FEWEST_LEARNED = 8
"""From fewer layers a fit says nothing, nor does the curve."""


@dataclass(frozen=True, eq=False)
class GrowingErrors:
    """Of every layer, after learning from some, more, and most of the others."""

    layers: int
    sizes: tuple[int, ...]
    """How many layers were learned from."""
    sums: Array
    """By judged layer and size: the relative errors of its rows, added up."""
    rows: NDArray[np.int_]
    """By judged layer."""

    def means(self, weights: Array) -> Array:
        """The mean error of rows by size, each layer counted so often; one line for each line of weights."""
        return np.asarray((weights @ self.sums) / (weights @ self.rows)[:, None])


def growing_errors(table: Table, seed: int, judged: NDArray[np.bool_] | None = None) -> GrowingErrors:
    """Cross-validated by layer; the smaller parts are parts of the larger ones.

    `judged` are the rows whose errors count, all if left out: points that were chosen to learn from are not like those
    that predictions are for.
    """
    names, places = np.unique(table.groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = np.empty(len(names), dtype=int)
    fold_of[order] = np.arange(len(names)) % FOLDS
    most = len(names) - (len(names) + FOLDS - 1) // FOLDS
    sizes = tuple(dict.fromkeys(size for share in SHARES if (size := round(share * most)) >= FEWEST_LEARNED))
    counted = np.ones(len(table), dtype=bool) if judged is None else judged
    sums = np.zeros((len(names), len(sizes)))
    for fold in range(FOLDS):
        held_out = np.flatnonzero((fold_of[places] == fold) & counted)
        others = order[fold_of[order] != fold]
        for column, size in enumerate(sizes if len(held_out) else ()):
            fitted = QuickFit.of(table.take(np.isin(places, others[:size])), seed)
            errors = relative_errors(fitted.predict(table.inputs[held_out]), table.target[held_out])
            np.add.at(sums[:, column], places[held_out], errors)
    rows = np.bincount(places[counted], minlength=len(names))
    return GrowingErrors(len(names), sizes, sums[rows > 0], rows[rows > 0])
