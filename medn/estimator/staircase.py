"""Latency along one parameter: the staircase that pruning walks down, and the step that is worth rounding to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.estimator.prediction import Predictions

STEPS = (1, 2, 4, 8, 16, 32, 64)
FEWEST = 4
"""A step needs so many multiples among the values before it can be judged."""

NEARLY = 1.002
"""A smaller step that costs at most so much more than the best one is as good."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """Predictions over all combinations of the values of the parameters that were varied."""

    kind: str
    fixed: Mapping[str, Any]
    varied: Mapping[str, NDArray[Any]]
    """One entry per row."""
    predictions: Predictions

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def latency_s(self) -> Array:
        return self.predictions.latency_s

    @property
    def is_worthwhile(self) -> NDArray[np.bool_] | None:
        """Whether no larger value is as fast: the edges of the steps. None unless one number was varied."""
        sizes = self._sizes()
        if sizes is None:
            return None
        order = np.argsort(sizes)
        later = np.minimum.accumulate(self.latency_s[order][::-1])[::-1]
        worthwhile = np.ones(len(sizes), dtype=np.bool_)
        worthwhile[order[:-1]] = self.latency_s[order[:-1]] < later[1:]
        return worthwhile

    @property
    def round_to(self) -> int | None:
        """The step to round sizes to; None unless one whole number was varied, finely enough to tell.

        Each step is judged by the seconds per unit of size at its multiples, from the largest step that has enough of
        them on. Of all steps that are nearly as good as the best, it is the smallest: it leaves the most choice.
        """
        sizes = self._sizes()
        if sizes is None or not (sizes == np.rint(sizes)).all():
            return None
        # A step with the same multiples among the values as a larger one cannot be told from it.
        by_count = {np.count_nonzero(sizes % step == 0): step for step in STEPS}
        known = [step for count, step in by_count.items() if count >= FEWEST]
        if not known:
            return None
        from_on = sizes >= known[-1]
        costs = {}
        for step in known:
            chosen = from_on & (sizes % step == 0)
            costs[step] = float(self.latency_s[chosen].sum() / sizes[chosen].sum())
        return next(step for step in known if costs[step] <= NEARLY * min(costs.values()))

    def _sizes(self) -> Array | None:
        if len(self.varied) != 1:
            return None
        (values,) = self.varied.values()
        return values.astype(np.float64) if values.dtype.kind in "iuf" and (values > 0).all() else None

    def rows(self) -> list[dict[str, Any]]:
        """One record per combination, ready to be written down."""
        columns: dict[str, Any] = {name: values.tolist() for name, values in self.varied.items()}
        columns |= {name: values.tolist() for name, values in self.predictions.columns.items() if values is not None}
        if self.is_worthwhile is not None:
            columns["worthwhile"] = self.is_worthwhile.tolist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def combinations(varied: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Every combination of the values, the last name changing fastest.

    >>> {name: values.tolist() for name, values in combinations({"a": np.array([1, 2]), "b": np.array([3, 4])}).items()}
    {'a': [1, 1, 2, 2], 'b': [3, 4, 3, 4]}
    """
    spread = np.meshgrid(*varied.values(), indexing="ij")
    return {name: values.ravel() for name, values in zip(varied, spread, strict=True)}
