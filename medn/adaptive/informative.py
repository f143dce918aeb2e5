"""Which points to measure next: those that tell most about all others, by what is known so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medn.core.table import Array
from medn.regressors.residual_process import ResidualProcess

SMALLEST_VARIANCE = 1e-12


class Knowledge:
    """What a process knows of candidates, and through them of the population that predictions are for."""

    def __init__(self, process: ResidualProcess, candidates: Array, population: Array) -> None:
        first, second = process.scaled(candidates), process.scaled(population)
        told_first, told_second = process.explained(first), process.explained(second)
        self._among = process.covariance(first, first) - told_first.T @ told_first
        self._across = process.covariance(first, second) - told_first.T @ told_second
        self._noise = process.found.noise
        self._unit = process.size**2 / len(population)

    @property
    def _variances(self) -> Array:
        return np.asarray(np.maximum(np.diag(self._among), SMALLEST_VARIANCE) + self._noise)

    def gains(self) -> Array:
        """By how much each candidate, once measured, lowers the mean variance of the logarithms of the population."""
        return np.asarray(self._unit * (self._across**2).sum(axis=1) / self._variances)

    def measure(self, place: int) -> None:
        """As if that candidate were measured: how sure one is then does not depend on what is found."""
        column, row, variance = self._among[:, place].copy(), self._across[place].copy(), self._variances[place]
        self._across -= np.outer(column, row) / variance
        self._among -= np.outer(column, column) / variance


def most_informative(known: Sequence[Knowledge], seconds: Array, count: int) -> list[int]:
    """Places of candidates, the best first, by several processes together: each candidate is measured on every device.

    Each lowers the mean variance of what is predicted of the population most, given those before it. A point at the
    edge, of which least is known, tells little of others; one that many resemble tells much. The seconds that a visit
    takes count by their root: they are only expected, and a point less is worth something too.
    """
    chosen: list[int] = []
    for _ in range(count):
        gains = np.sum([each.gains() for each in known], axis=0) / np.sqrt(seconds)
        gains[chosen] = -np.inf
        best = int(gains.argmax())
        if gains[best] == -np.inf:
            break
        chosen.append(best)
        for each in known:
            each.measure(best)
    return chosen
