"""The multiple-choice knapsack, exactly: one item of every class, the least value, no resource above its limit.

Dynamic programming over the classes. A state is what has been picked so far; one that another beats in value and in
every resource is dropped, and so is one that no completion can bring below the best solution known.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.selection.pareto import nondominated

SLACK = 1e-9
"""Sums of floating-point numbers may exceed a limit by this share."""

PRICES = (0.0, 0.1, 1.0, 10.0)
STEPS = (0.25, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 4.0)
ROUNDS = 30
"""Prices of a whole limit, in units of the spread of values: a grid to start from, then factors that improve them."""


BEAM = 300
"""States that a quick first search keeps at each class."""


@dataclass(frozen=True, eq=False)
class Items:
    """The items of one class: a value each, to be made small, and the amount of every resource it takes."""

    values: Array
    amounts: Array
    """One row per item, one column per resource."""


Picks = tuple[int, ...]
"""The place of the chosen item in each class."""


def solve(classes: Sequence[Items], limits: Array) -> Picks | None:
    """The picks with the least total value within the limits; None if nothing fits.

    >>> cheap_or_good = Items(np.array([3.0, 1.0]), np.array([[1.0], [5.0]]))
    >>> solve([cheap_or_good, cheap_or_good], np.array([6.0]))
    (0, 1)
    """
    limits = limits * (1 + SLACK)
    # Resources alone must fit whatever they are traded at, which finds out early that nothing fits.
    fitting = _Relaxed(classes, limits, _grid(len(limits)) / limits, counts_values=False)
    valued = _tightened(classes, limits)
    found, best = None, valued.best_found
    for width in (BEAM, None):  # a good solution first, as it rules out most of the rest
        states = _searched(classes, limits, fitting, valued, best, width)
        if len(states.values):
            found = states.picks(int(states.values.argmin()))
            best = float(states.values.min())
    return found


def _searched(
    classes: Sequence[Items], limits: Array, fitting: _Relaxed, valued: _Relaxed, best: float, width: int | None
) -> _States:
    """The states worth keeping after the last class: no worse than `best`, and at most `width` of them on the way."""
    enough = best + SLACK * max(abs(best), 1.0)
    states = _States.start(len(limits))
    for place, items in enumerate(classes):
        states = states.grown(items, valued.lowest_with(place) <= enough)
        needed = sum((each.amounts.min(axis=0) for each in classes[place + 1 :]), np.zeros(len(limits)))
        lowest = valued.lowest(place + 1, states.values, states.amounts)
        alive = (states.amounts + needed <= limits).all(axis=1) & (lowest <= enough)
        alive &= fitting.lowest(place + 1, np.zeros(len(alive)), states.amounts) <= SLACK
        if width and alive.sum() > width:
            alive &= lowest <= np.partition(lowest[alive], width)[width]
        states = states.kept(alive)
        states = states.kept(nondominated(np.column_stack([states.values, states.amounts])))
    return states


def nearest_limits(classes: Sequence[Items], limits: Array) -> Array:
    """The totals of the selection that exceeds its limits least, by the worst share: what to ask for if nothing fits.

    Looked for among the selections that are cheapest at some prices; with one resource that is exact.
    """
    prices = _grid(len(limits))
    best = np.array([])
    for _ in range(ROUNDS):
        relaxed = _Relaxed(classes, limits, prices / limits, counts_values=False)
        shares = (relaxed.amounts / limits).max(axis=1)
        best, price = relaxed.amounts[shares.argmin()], prices[shares.argmin()]
        prices = _around(np.maximum(price, 1e-6))
    return best


def tradeoffs(classes: Sequence[Items]) -> list[Picks]:
    """Every pick that no other equals or beats in total value and in all resources, by rising value."""
    states = _States.start(classes[0].amounts.shape[1])
    for items in classes:
        states = states.grown(items, np.ones(len(items.values), dtype=bool))
        states = states.kept(nondominated(np.column_stack([states.values, states.amounts])))
    return [states.picks(int(index)) for index in np.argsort(states.values, kind="stable")]


@dataclass(frozen=True, eq=False)
class _States:
    """Picks in the first few classes: their totals, and each one's row of items."""

    values: Array
    amounts: Array
    rows: NDArray[np.int_]

    @classmethod
    def start(cls, resources: int) -> _States:
        return cls(np.zeros(1), np.zeros((1, resources)), np.zeros((1, 0), dtype=int))

    def grown(self, items: Items, wanted: NDArray[np.bool_]) -> _States:
        """Every state with every item that is wanted."""
        pairs = np.meshgrid(np.arange(len(self.values)), np.flatnonzero(wanted), indexing="ij")
        old, new = (each.ravel() for each in pairs)
        return _States(
            self.values[old] + items.values[new],
            self.amounts[old] + items.amounts[new],
            np.column_stack([self.rows[old], new]),
        )

    def kept(self, alive: NDArray[np.bool_]) -> _States:
        return _States(self.values[alive], self.amounts[alive], self.rows[alive])

    def picks(self, index: int) -> Picks:
        return tuple(int(pick) for pick in self.rows[index])


class _Relaxed:
    """The problem with its limits traded at prices, where every class chooses for itself: no solution has less value.

    One row per set of prices; each is a bound, and where its picks fit, a solution.
    """

    def __init__(self, classes: Sequence[Items], limits: Array, prices: Array, *, counts_values: bool = True) -> None:
        self.limits, self.prices = limits, prices
        self.paid = paid = [
            items.amounts @ prices.T + (items.values[:, None] if counts_values else 0.0) for items in classes
        ]
        least = np.array([each.min(axis=0) for each in paid])
        zero = np.zeros((1, len(prices)))
        self.rest = np.concatenate([np.cumsum(least[::-1], axis=0)[::-1], zero])
        """The least that the classes from each place on can have."""
        picks = [each.argmin(axis=0) for each in paid]
        self.amounts = np.asarray(sum(items.amounts[own] for items, own in zip(classes, picks, strict=True)))
        values = np.asarray(sum(items.values[own] for items, own in zip(classes, picks, strict=True)))
        fits = (self.amounts <= limits).all(axis=1)
        self.best_found = float(values[fits].min()) if fits.any() else np.inf

    @property
    def bounds(self) -> Array:
        return np.asarray(self.rest[0] - self.prices @ self.limits)

    def lowest_with(self, place: int) -> Array:
        """What a solution with each item of a class can have at best."""
        paid = self.paid[place]
        return np.asarray((self.bounds + paid - paid.min(axis=0)).max(axis=1))

    def lowest(self, place: int, values: Array, amounts: Array) -> Array:
        """What each state can come to at best, with the classes from `place` on still open."""
        return np.asarray((values[:, None] + (amounts - self.limits) @ self.prices.T + self.rest[place]).max(axis=1))


def _grid(resources: int) -> Array:
    return np.array(list(itertools.product(PRICES, repeat=resources)))


def _around(prices: Array) -> Array:
    """The same prices, and each of them changed a little or a lot."""
    changed = [np.where(np.arange(len(prices)) == place, step, 1.0) for place in range(len(prices)) for step in STEPS]
    return np.asarray(prices * np.array([np.ones(len(prices)), *changed]))


def _tightened(classes: Sequence[Items], limits: Array) -> _Relaxed:
    """The relaxed problem at prices that make its bound nearly as high as can be."""
    unit = sum(float(np.ptp(items.values)) for items in classes) / limits
    relaxed = _Relaxed(classes, limits, _grid(len(limits)) * unit)
    best_found = relaxed.best_found
    for _ in range(ROUNDS):
        best = relaxed.prices[relaxed.bounds.argmax()]
        # A price of nothing would stay one.
        relaxed = _Relaxed(classes, limits, _around(np.maximum(best, 1e-6 * unit)))
        best_found = min(best_found, relaxed.best_found)
    relaxed.best_found = best_found
    return relaxed
