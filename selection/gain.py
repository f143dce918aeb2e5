"""How much better one selection is than another on rows that neither was chosen by, and how sure that is.

Layers are drawn again with replacement within every place, each with all its rows, since rows of a layer err alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.metrics import relative_errors
from medn.core.table import Array

DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its bootstrap confidence interval."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def as_json(self) -> dict[str, float]:
        return asdict(self)


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
        return _estimate(self.accuracy[:, self.schemes.index(scheme)])

    def r2_of(self, scheme: str) -> Estimate:
        return _estimate(self.r2[:, self.schemes.index(scheme)])

    def accuracy_gain(self, scheme: str, over: str) -> Estimate:
        return self._gain(self.accuracy, scheme, over)

    def r2_gain(self, scheme: str, over: str) -> Estimate:
        return self._gain(self.r2, scheme, over)

    def _gain(self, drawn: Array, scheme: str, over: str) -> Estimate:
        return _estimate(drawn[:, self.schemes.index(scheme)] - drawn[:, self.schemes.index(over)])


def _estimate(drawn: Array, level: float = LEVEL) -> Estimate:
    low, high = np.nanquantile(drawn[1:], [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(drawn[0]), float(low), float(high), level)


def bootstrap(places: Sequence[Judged], seed: int = 0, draws: int = DRAWS) -> Bootstrap:
    """Judge every scheme that all places have predictions of."""
    schemes = tuple(name for name in places[0].predicted_s if all(name in place.predicted_s for place in places))
    random = np.random.default_rng(seed)
    whole = sum(place.weight for place in places)
    accuracy, r2 = np.zeros((2, draws + 1, len(schemes)))
    for place in places:
        sums = _Sums.of(place, schemes)
        for draw, counts in enumerate(_counts(len(sums.about), draws, random)):
            own_accuracy, own_r2 = sums.scores(counts)
            accuracy[draw] += place.weight / whole * own_accuracy
            r2[draw] += place.weight / whole * own_r2
    return Bootstrap(schemes, accuracy, r2)


def mean_difference(
    first: Array, second: Array, groups: NDArray[np.str_], level: float, seed: int = 0, draws: int = DRAWS
) -> Estimate:
    """By how much the mean of the first exceeds that of the second, row by row on the same layers."""
    sums = _per_layer(groups, np.column_stack([np.ones(len(first)), first - second]))
    totals = np.array([counts @ sums for counts in _counts(len(sums), draws, np.random.default_rng(seed))])
    return _estimate(totals[:, 1] / totals[:, 0], level)


def _counts(layers: int, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """How often each layer counts: once at first, then as often as it is drawn."""
    yield np.ones(layers)
    for _ in range(draws):
        yield np.bincount(random.integers(layers, size=layers), minlength=layers).astype(np.float64)


def _per_layer(groups: NDArray[np.str_], columns: Array) -> Array:
    """The sums of columns over the rows of each layer."""
    names, layer = np.unique(groups, return_inverse=True)
    return np.column_stack([np.bincount(layer, column, len(names)) for column in columns.T])


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
        return cls(*(_per_layer(place.groups, columns) for columns in (about, errors, squares)))

    def scores(self, counts: Array) -> tuple[Array, Array]:
        """Accuracy and R2 of every scheme when each layer counts so many times."""
        rows, total, squares = counts @ self.about
        spread = squares - total**2 / rows
        unexplained = counts @ self.squares
        r2 = 1 - unexplained / spread if spread > 0 else np.full(len(unexplained), np.nan)
        return 1 - counts @ self.errors / rows, r2
