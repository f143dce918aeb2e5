"""How sure a mean over rows is: layers are drawn again with replacement, each with all its rows, as those err alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

DRAWS = 1000
LEVEL = 0.95

MANY_LAYERS = 200
"""From so many on, Student's distribution is the normal one."""


@dataclass(frozen=True)
class Estimate:
    """A number with its bootstrap confidence interval."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def estimate(drawn: Array, level: float = LEVEL, tail: float | None = None) -> Estimate:
    """The first number, with what the others say of it; `tail` is left out on either side, where not by the level."""
    tail = (1 - level) / 2 if tail is None else tail
    others = drawn[1:][~np.isnan(drawn[1:])]
    low, high = np.quantile(others, [tail, 1 - tail]) if len(others) else (math.nan, math.nan)
    return Estimate(float(drawn[0]), float(low), float(high), level)


def mean_of_layers(
    values: Array, groups: NDArray[np.str_], level: float = LEVEL, seed: int = 0, draws: int = DRAWS
) -> Estimate:
    """The mean over rows, as sure as the layers make it."""
    return estimate(_drawn_means(values, groups, seed, draws), level)


def mean_of_few_layers(values: Array, groups: NDArray[np.str_], level: float = LEVEL, seed: int = 0) -> Estimate | None:
    """The same, wider where layers are few: drawing from a handful knows too little of what others would say.

    The tails are those of Student's distribution (Hesterberg's expanded percentile interval). None for a single layer,
    which says nothing of others.
    """
    layers = len(np.unique(groups))
    if layers < 2:
        return None
    tail = NormalDist().cdf(-math.sqrt(layers / (layers - 1)) * _student(level, layers - 1))
    return estimate(_drawn_means(values, groups, seed, DRAWS), level, tail)


def _drawn_means(values: Array, groups: NDArray[np.str_], seed: int, draws: int) -> Array:
    sums = per_layer(groups, np.column_stack([np.ones(len(values)), values]))
    totals = _all_counts(len(sums), draws, seed).astype(np.float64) @ sums
    return np.asarray(totals[:, 1] / totals[:, 0])


def per_layer(groups: NDArray[np.str_], columns: Array) -> Array:
    """The sums of columns over the rows of each layer."""
    names, layer = np.unique(groups, return_inverse=True)
    return np.column_stack([np.bincount(layer, column, len(names)) for column in columns.T])


def counts(layers: int, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """How often each layer counts: once at first, then as often as it is drawn."""
    yield np.ones(layers)
    for _ in range(draws):
        yield np.bincount(random.integers(layers, size=layers), minlength=layers).astype(np.float64)


@lru_cache(maxsize=8)
def _all_counts(layers: int, draws: int, seed: int) -> NDArray[np.uint16]:
    """A draw in each row, kept, as many predictors are judged on the same layers."""
    found = np.empty((draws + 1, layers), dtype=np.uint16)
    for row, drawn in zip(found, counts(layers, draws, np.random.default_rng(seed)), strict=True):
        row[:] = drawn
    return found


def _student(level: float, degrees: int) -> float:
    """How many standard errors on either side hold the level, by Student's distribution.

    >>> [round(_student(0.95, degrees), 2) for degrees in (1, 2, 7, 30, 5000)]
    [12.71, 4.3, 2.36, 2.04, 1.96]
    """
    if degrees > MANY_LAYERS:
        return NormalDist().inv_cdf((1 + level) / 2)
    # Its distribution is that of the tangent of an angle whose density is a power of the cosine.
    angles = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angles) ** (degrees - 1)
    within = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(degrees) * math.tan(float(np.interp(level, within / within[-1], angles)))
