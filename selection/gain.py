"""How much better one selection is than another on rows that neither was chosen by, and how sure that is.

Layers are drawn again with replacement within every place, each with all its rows, since rows of a layer err alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.bootstrap import DRAWS, Estimate, counts, estimate, mean_of_layers, per_layer
from medn.core.metrics import relative_errors
from medn.core.table import Array


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows of one place and what each scheme predicts for them."""

    measured_s: Array
    groups: NDArray[np.str_]
    predicted_s: Mapping[str, Array]
    weight: float = 1.0
    """How much the place counts in the mean over places."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Overall accuracy and R2 of every scheme: first as it is, then once per draw. Both are means over places."""

    schemes: tuple[str, ...]
    accuracy: Array
    r2: Array
    """One row per draw, one column per scheme."""

    def accuracy_of(self, scheme: str) -> Estimate:
        return estimate(self.accuracy[:, self.schemes.index(scheme)])

    def r2_of(self, scheme: str) -> Estimate:
        return estimate(self.r2[:, self.schemes.index(scheme)])

    def accuracy_gain(self, scheme: str, over: str) -> Estimate:
        return self._gain(self.accuracy, scheme, over)

    def r2_gain(self, scheme: str, over: str) -> Estimate:
        return self._gain(self.r2, scheme, over)

    def _gain(self, drawn: Array, scheme: str, over: str) -> Estimate:
        return estimate(drawn[:, self.schemes.index(scheme)] - drawn[:, self.schemes.index(over)])


def bootstrap(places: Sequence[Judged], seed: int = 0, draws: int = DRAWS) -> Bootstrap:
    """Judge every scheme that all places have predictions of."""
    schemes = tuple(name for name in places[0].predicted_s if all(name in place.predicted_s for place in places))
    random = np.random.default_rng(seed)
    whole = sum(place.weight for place in places)
    accuracy, r2 = np.zeros((2, draws + 1, len(schemes)))
    for place in places:
        sums = _Sums.of(place, schemes)
        for draw, drawn in enumerate(counts(len(sums.about), draws, random)):
            own_accuracy, own_r2 = sums.scores(drawn)
            accuracy[draw] += place.weight / whole * own_accuracy
            r2[draw] += place.weight / whole * own_r2
    return Bootstrap(schemes, accuracy, r2)


def mean_difference(first: Array, second: Array, groups: NDArray[np.str_], level: float, seed: int = 0) -> Estimate:
    """By how much the mean of the first exceeds that of the second, row by row on the same layers."""
    return mean_of_layers(first - second, groups, level, seed)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What both scores need, summed up per layer, so that a draw is one product."""

    about: Array
    """Rows, measured, measured squared of each layer."""
    errors: Array
    squares: Array
    """Relative errors and squared differences of each layer and scheme."""

    @classmethod
    def of(cls, place: Judged, schemes: Sequence[str]) -> _Sums:
        # From the mean on: the spread would be a small difference of large squares otherwise.
        centred = place.measured_s - place.measured_s.mean()
        predicted = [place.predicted_s[name] for name in schemes]
        errors = np.column_stack([relative_errors(each, place.measured_s) for each in predicted])
        squares = np.column_stack([(each - place.measured_s) ** 2 for each in predicted])
        about = np.column_stack([np.ones(len(centred)), centred, centred**2])
        return cls(*(per_layer(place.groups, columns) for columns in (about, errors, squares)))

    def scores(self, counts: Array) -> tuple[Array, Array]:
        """Accuracy and R2 of every scheme when each layer counts so many times."""
        rows, total, squares = counts @ self.about
        spread = squares - total**2 / rows
        unexplained = counts @ self.squares
        r2 = 1 - unexplained / spread if spread > 0 else np.full(len(unexplained), np.nan)
        return 1 - counts @ self.errors / rows, r2
