"""The choice: one option for every place, the best there is within a budget.

First the smallest overall error within the limits. Then, among options whose error is near enough to that, the
smallest price, within the same limits. What is near enough and what counts as the price is the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from medn.core.errors import UsageError
from medn.core.table import Array
from medn.selection.budget import MODES, Budget, Mode
from medn.selection.gain import mean_difference
from medn.selection.knapsack import SLACK, Items, nearest_limits, solve, tradeoffs
from medn.selection.option import NO_COST, Cost, Option, Selection
from medn.selection.pareto import front

ERROR_DIGITS = 5
"""Overall errors that differ by less are the same point of the front."""

Shares = Mapping[str, float]
"""How much each place counts; they add up to one."""


def by_place(options: Sequence[Option]) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for option in options:
        found.setdefault(option.place, []).append(option)
    return found


def shares(weights: Mapping[str, float]) -> Shares:
    whole = sum(weights.values())
    return {place: weight / whole for place, weight in weights.items()}


def overall_error(selection: Selection, share: Shares) -> float:
    return sum(share[place] * option.error for place, option in selection.items())


def total_cost(selection: Selection, share: Shares) -> Cost:
    """Time as the mean over places, bytes and load time as sums."""
    return sum((_counted(option, share) for option in selection.values()), NO_COST)


def _counted(option: Option, share: Shares) -> Cost:
    return Cost(share[option.place] * option.cost.us, option.cost.bytes, option.cost.load_ms)


def choose(options: Sequence[Option], budget: Budget, share: Shares, seed: int = 0, fixed: Cost = NO_COST) -> Selection:
    """The selection that a budget asks for; an impossible budget is refused with the nearest possible one.

    `fixed` is what any selection takes of the budget.
    """
    mode = MODES[budget.mode]
    worth = {place: front(found) for place, found in by_place(options).items()}
    best = _least(worth, lambda option: share[option.place] * option.believed, budget, share, fixed)
    near = {place: [each for each in worth[place] if _is_near(each, best[place], mode, seed)] for place in worth}
    return _least(near, lambda option: share[option.place] * mode.price(option.cost), budget, share, fixed)


def _is_near(option: Option, best: Option, mode: Mode, seed: int) -> bool:
    if option.believed <= best.believed * (1 + mode.tolerance):
        return True
    if mode.tied_level is None:
        return False
    return mean_difference(option.errors, best.errors, option.groups, mode.tied_level, seed).low <= 0


def _least(
    options: Mapping[str, Sequence[Option]],
    value: Callable[[Option], float],
    budget: Budget,
    share: Shares,
    fixed: Cost,
) -> Selection:
    """The selection with the least sum of values within the budget, exactly."""
    taken = _amounts(fixed)
    limits = np.maximum(_amounts(budget.limits) - taken, SLACK)
    limited = np.isfinite(limits)
    classes = [
        Items(
            np.array([value(option) for option in found]),
            np.array([_amounts(_counted(option, share))[limited] for option in found]),
        )
        for found in options.values()
    ]
    picks = solve(classes, limits[limited])
    if picks is None:
        raise UsageError(_refusal(budget, limited, nearest_limits(classes, limits[limited]) + taken[limited]))
    return {place: found[pick] for (place, found), pick in zip(options.items(), picks, strict=True)}


def _amounts(cost: Cost) -> Array:
    return np.array([cost.us, cost.bytes, cost.load_ms])


def _refusal(budget: Budget, limited: Sequence[bool] | Array, nearest: Array) -> str:
    """The nearest possible budget, rounded up so that it can be asked for as it is written."""
    names = [name for name, given in zip(("us", "kB", "load_ms"), limited, strict=True) if given]
    scale = {"us": 1.0, "kB": 1e-3, "load_ms": 1.0}
    asked = {"us": budget.max_us, "kB": budget.max_kb, "load_ms": budget.max_load_ms}
    units = {"us": "us a row", "kB": "kB", "load_ms": "ms to load"}
    possible = {
        name: max(_rounded_up(amount * scale[name]), asked[name] or 0.0)
        for name, amount in zip(names, nearest, strict=True)
    }
    wanted = " and ".join(f"{asked[name]:g} {units[name]}" for name in names)
    offer = " and ".join(f"{possible[name]:g} {units[name]}" for name in names)
    return f"no selection keeps within {wanted}. The nearest possible: {offer}"


def _rounded_up(number: float) -> float:
    step = 10.0 ** (math.floor(math.log10(number)) - 2) if number > 0 else 1.0
    return float(f"{math.ceil(number / step * (1 - SLACK)) * step:.12g}")


def whole_front(options: Sequence[Option], share: Shares, resource: str) -> list[Selection]:
    """Every selection that no other equals or beats in overall error and in one resource, from the most accurate on."""
    places = by_place(options)
    classes = [
        Items(
            np.array([round(share[place] * option.error, ERROR_DIGITS) for option in found]),
            np.array([[getattr(_counted(option, share), resource)] for option in found]),
        )
        for place, found in places.items()
    ]
    return [
        {place: places[place][pick] for place, pick in zip(places, picks, strict=True)} for picks in tradeoffs(classes)
    ]
