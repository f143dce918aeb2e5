"""Which points to measure on a new device: few, and such that every region of the layers has one.

Points are clustered by what they are and by what known devices take for them; clusters in decreasing size take the
point nearest to their centre that is not taken yet. From some dozens of points on, drawing at random does as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

ROUNDS = 12
MOST_CLUSTERED = 4000
"""Of more points some are clustered: they tell the regions as well."""

Places = NDArray[np.intp]


def medoids(features: Array, count: int, taken: Collection[int] = (), seed: int = 0) -> list[int]:
    """The further points, the largest cluster's first, so that there are so many with those that are taken already.

    >>> line = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0]])
    >>> medoids(line, 3)
    [1, 3, 5]
    >>> medoids(line, 3, taken=[0, 5])
    [3]
    """
    count = min(count, len(features))
    wanted = count - len(taken)
    if wanted <= 0:
        return []
    random = np.random.default_rng(seed)
    points = scaled(features)
    some = points if len(points) <= MOST_CLUSTERED else points[random.permutation(len(points))[:MOST_CLUSTERED]]
    centres = _clustered(some, min(count, len(some)), random)
    nearest = _squares(points, centres).argmin(axis=1)
    sizes = np.bincount(nearest, minlength=len(centres))
    is_free = np.ones(len(points), dtype=bool)
    is_free[list(taken)] = False
    served = set(nearest[list(taken)].tolist())
    order = sorted(range(len(centres)), key=lambda cluster: (cluster in served, -sizes[cluster]))
    chosen: list[int] = []
    while len(chosen) < wanted:
        for cluster in order[: wanted - len(chosen)]:
            free = np.flatnonzero(is_free)
            place = int(free[_squares(points[free], centres[cluster][None])[:, 0].argmin()])
            is_free[place] = False
            chosen.append(place)
    return chosen


def at_random(features: Array, count: int, taken: Collection[int] = (), seed: int = 0) -> list[int]:
    """Drawn from all points alike."""
    order = np.random.default_rng(seed).permutation(len(features)).tolist()
    return [place for place in order if place not in set(taken)][: max(count - len(taken), 0)]


def sobol(features: Array, count: int, taken: Collection[int] = (), seed: int = 0) -> list[int]:
    """The points nearest to a Sobol sequence through the main directions of the points."""
    from scipy.stats import qmc

    points = scaled(features)
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    places = points @ directions[:3].T
    ranks = places.argsort(axis=0).argsort(axis=0) / max(len(places) - 1, 1)
    is_free = np.ones(len(points), dtype=bool)
    is_free[list(taken)] = False
    wanted = max(min(count, len(points)) - len(taken), 0)
    found: list[int] = []
    sequence = qmc.Sobol(ranks.shape[1], seed=seed).random_base2(max(wanted - 1, 0).bit_length())
    for corner in sequence[:wanted]:
        free = np.flatnonzero(is_free)
        place = int(free[_squares(ranks[free], corner[None])[:, 0].argmin()])
        is_free[place] = False
        found.append(place)
    return found


Choose = Callable[[Array, int, Collection[int], int], list[int]]
WAYS: Mapping[str, Choose] = {"medoids": medoids, "random": at_random, "sobol": sobol}


def scaled(features: Array) -> Array:
    """Every feature on a scale of its own; one that never varies says nothing."""
    spread = features.std(axis=0)
    varies = spread > 1e-9
    return np.asarray((features[:, varies] - features[:, varies].mean(axis=0)) / spread[varies])


def _clustered(points: Array, count: int, random: np.random.Generator) -> Array:
    """Centres by k-means, begun at points far from one another."""
    centres = points[[int(random.integers(len(points)))]]
    squares = _squares(points, centres)[:, 0]
    for _ in range(count - 1):
        share = squares / squares.sum() if squares.sum() > 0 else None
        centres = np.vstack([centres, points[random.choice(len(points), p=share)]])
        squares = np.minimum(squares, _squares(points, centres[-1:])[:, 0])
    for _ in range(ROUNDS):
        nearest = _squares(points, centres).argmin(axis=1)
        members = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        centres = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
    return np.asarray(centres)


def _squares(points: Array, centres: Array) -> Array:
    """Squared distances, a column for each centre."""
    squares = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))
