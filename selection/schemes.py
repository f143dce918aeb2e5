"""The ways to select that are set side by side: one regressor for everything, the best of each place, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medn.selection.budget import Budget
from medn.selection.choice import Shares, by_place, choose
from medn.selection.option import Option, Selection

BEST = "best per kind"
EFFICIENT = "efficient per kind"
ENSEMBLE = "ensemble per kind"
CHOSEN = "chosen"


@dataclass(frozen=True, eq=False)
class Scheme:
    name: str
    selection: Selection
    note: str
    is_single: bool = False
    """Whether it is one regressor for everything."""


def single(name: str) -> str:
    """What the scheme is called that uses one regressor for everything."""
    return f"only {name}"


def schemes(options: Sequence[Option], chosen: Selection, budget: Budget, share: Shares) -> list[Scheme]:
    """Every regressor for all places, then the selections by place, the chosen one last."""
    places = by_place(options)
    alone = [option for option in options if not option.members]
    names = sorted({option.name for option in alone})
    complete = [name for name in names if all(any(each.name == name for each in places[place]) for place in places)]
    found = [
        Scheme(
            single(name),
            {place: next(each for each in places[place] if each.name == name) for place in places},
            "one regressor for everything",
            is_single=True,
        )
        for name in complete
    ]
    efficient = choose(alone, Budget("balanced", budget.rows), share)
    return [
        *found,
        Scheme(BEST, _most_accurate(alone), "the smallest validation error, whatever it costs"),
        Scheme(EFFICIENT, efficient, "near the smallest validation error, time x bytes small"),
        Scheme(ENSEMBLE, _most_accurate(options), "the same with ensembles"),
        Scheme(CHOSEN, chosen, f"mode {budget.mode} within the budget"),
    ]


def _most_accurate(options: Sequence[Option]) -> Selection:
    return {place: min(found, key=lambda each: each.believed) for place, found in by_place(options).items()}
