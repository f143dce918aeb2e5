"""What training took, by family: the trials, the time of the search and of the fits, and what came of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from medn.core.units import format_duration, percent
from medn.report.content import Content, KindContent
from medn.report.tables import Cell, Column, PageTable, TableRow, cell


@dataclass(frozen=True)
class FamilyCost:
    family: str
    kinds: int
    """That it was fitted for."""
    failed: int
    """Kinds that it has no candidate for."""
    trials: int
    search_s: float
    fit_s: float
    """Of the best settings, once for each kind."""
    error: float | None
    """On test layers, the mean over its kinds."""
    chosen: int
    """Kinds that ship it, alone or in an ensemble."""

    @property
    def seconds(self) -> float:
        return self.search_s + self.fit_s


def family_costs(content: Content) -> list[FamilyCost]:
    """The family that took the longest first."""
    families = sorted({name for kind in content.kinds for name in (*kind.trained, *kind.failed)})
    return sorted((_cost(content, family) for family in families), key=lambda each: -each.seconds)


def _cost(content: Content, family: str) -> FamilyCost:
    kinds = [kind for kind in content.kinds if family in kind.trained]
    # A family that learns all kinds at once has one search for them.
    searches = {each.journal: each for kind in kinds if (each := kind.searches.get(family))}
    errors = list(_errors(kinds, family))
    return FamilyCost(
        family=family,
        kinds=len(kinds),
        failed=sum(family in kind.failed for kind in content.kinds),
        trials=sum(len(search.best) for search in searches.values()),
        search_s=sum(search.seconds for search in searches.values()),
        fit_s=sum(kind.trained[family].fit_seconds for kind in kinds),
        error=statistics.fmean(errors) if errors else None,
        chosen=sum(family in kind.candidate.regressor.split("+") for kind in kinds),
    )


def _errors(kinds: list[KindContent], family: str) -> Iterator[float]:
    for kind in kinds:
        yield from (row["mape"] for row in kind.rows if row["candidate"] == family)


def cost_table(content: Content) -> PageTable:
    columns = [
        Column("family", is_number=False),
        Column("time", "the search and the last fit of every kind"),
        Column("trials", "settings that were tried"),
        Column("search", "all trials together"),
        Column("fits", "the best settings, once for each kind"),
        Column("kinds", "that it has a candidate for"),
        Column("failed", "kinds that it has none for"),
        Column("MAPE", "mean error on test layers, the mean over its kinds"),
        Column("chosen for", "kinds that ship it, alone or in an ensemble"),
    ]
    lines = []
    for each in family_costs(content):
        times = [cell(seconds, _seconds) for seconds in (each.seconds, each.search_s, each.fit_s)]
        counts = [cell(number, str) for number in (each.trials, each.kinds, each.failed, each.chosen)]
        cells = [Cell(each.family, each.family), times[0], counts[0], *times[1:], *counts[1:3]]
        lines.append(TableRow([*cells, cell(each.error, percent), counts[3]], is_marked=each.chosen > 0))
    return PageTable("What training took, by family of regressors; those that ship are marked", columns, lines)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else format_duration(seconds)
