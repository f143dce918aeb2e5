"""Several runs in the order of their time: what was chosen in each, kind by kind, and how that changed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from medn.choosing.leaderboard import JSON_FILE, Leaderboard, load_leaderboard
from medn.core.store import JOURNAL_NAME
from medn.core.units import percent
from medn.report.compare import FORMATS, QUANTITIES, TITLES, chosen_by_name, format_quantity, run_names, signed
from medn.report.leaderboard_rows import Row, chosen_rows, noise_of
from medn.report.page import render
from medn.report.plots import COLORS, Axis, Mark, Plot, dots, line, span
from medn.report.summary_text import joined
from medn.report.tables import Cell, Column, PageTable, TableRow, cell
from medn.runs.folder import RunFolder

MOST_LINES = len(COLORS)
"""More kinds cannot be told apart in a plot; those that changed most are drawn."""


@dataclass(frozen=True)
class DatedRun:
    name: str
    folder: Path
    at: float
    """When it was last measured, or chosen from where that is not known, in seconds since 1970."""
    board: Leaderboard

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.at).strftime("%Y-%m-%d %H:%M")

    @property
    def noise(self) -> float | None:
        """The mean over what was chosen."""
        known = [noise for row in chosen_rows(self.board) if (noise := noise_of(row)) is not None]
        return statistics.fmean(known) if known else None


@dataclass(frozen=True)
class Timeline:
    runs: tuple[DatedRun, ...]
    """The earliest first."""
    kinds: Mapping[str, tuple[Row | None, ...]]
    """What each run chose for a kind; None where it has nothing that was judged."""

    @property
    def common(self) -> list[str]:
        """The kinds that every run has."""
        return [name for name, rows in self.kinds.items() if all(rows)]

    def means(self, quantity: str) -> list[float]:
        """Of each run, over the kinds that all have; nothing where they have none in common."""
        columns = zip(*(self.values(name, quantity) for name in self.common), strict=True)
        return [statistics.fmean(float(value or 0.0) for value in column) for column in columns]

    def values(self, kind: str, quantity: str) -> list[float | None]:
        return [row[quantity] if row else None for row in self.kinds[kind]]

    def change(self, kind: str, quantity: str) -> float | None:
        """From the first run that has the kind to the last: of an error in shares, of a cost relative to the first."""
        known = [value for value in self.values(kind, quantity) if value]
        if len(known) < 2:
            return None
        return known[-1] - known[0] if quantity == "mape" else known[-1] / known[0] - 1


def over_time(folders: Sequence[Path]) -> Timeline:
    boards = [load_leaderboard(folder) for folder in folders]
    names = run_names(folders)
    runs = [DatedRun(*about) for about in zip(names, folders, map(measured_at, folders), boards, strict=True)]
    runs.sort(key=lambda run: run.at)
    chosen = [
        {name: row for name, row in side.items() if row["mape"] is not None}
        for side in chosen_by_name([run.board for run in runs])
    ]
    kinds = sorted({name for side in chosen for name in side})
    return Timeline(tuple(runs), {name: tuple(side.get(name) for side in chosen) for name in kinds})


def measured_at(folder: Path) -> float:
    """When a run was last visited; tables from elsewhere do not tell, and a choice has its own time."""
    latest = None
    if (folder / JOURNAL_NAME).is_file():
        with RunFolder(folder).store(must_exist=True) as store:
            latest = store.last_visit_at()
    return latest or (folder / JSON_FILE).stat().st_mtime


def timeline_sentences(timeline: Timeline) -> list[str]:
    names = joined([run.name for run in timeline.runs])
    if not timeline.common:
        return [f"{names} have no layer kind in common."]
    count = f"{len(timeline.common)} layer kind" + ("" if len(timeline.common) == 1 else "s")
    told = []
    for quantity, what in (("mape", "error"), ("us_1", "one prediction"), ("bytes", "size")):
        told.append(f"{what} {' -> '.join(format_quantity(quantity, mean) for mean in timeline.means(quantity))}")
    noises = [percent(run.noise) or "not known" for run in timeline.runs]
    sentences = [
        f"Means over the {count} that all runs have, in their order of time ({names}): {'; '.join(told)}.",
        f"Noise of the measurements: {' -> '.join(noises)}.",
    ]
    partly = [name for name in timeline.kinds if name not in timeline.common]
    return [*sentences, f"Not in all runs: {joined(partly)}."] if partly else sentences


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    def side(row: Row | None) -> dict[str, Any] | None:
        return {"candidate": row["candidate"], **{name: row[name] for name in QUANTITIES}} if row else None

    return {
        "runs": [{"run": str(run.folder), "at": run.at, "noise": run.noise} for run in timeline.runs],
        "means": {name: timeline.means(name) for name in QUANTITIES},
        "kinds": [{"kind": name, "runs": [side(row) for row in rows]} for name, rows in timeline.kinds.items()],
    }


def timeline_page(timeline: Timeline) -> str:
    return render(
        "timeline.html",
        {
            "title": f"medn comparison: {len(timeline.runs)} runs",
            "names": [run.name for run in timeline.runs],
            "summary": timeline_sentences(timeline),
            "runs": _runs_table(timeline),
            "tables": [_kinds_table(timeline, quantity) for quantity in QUANTITIES],
            "plots": [_plot(timeline, quantity) for quantity in QUANTITIES],
        },
    )


def _runs_table(timeline: Timeline) -> PageTable:
    columns = [
        Column("run", is_number=False),
        Column("measured", "when it was last measured", is_number=False),
        Column("kinds", "that something was chosen for"),
        Column("noise", "how far two halves of the measurements disagree, on average over the kinds"),
        *(
            Column(heading, f"{about}, mean over the kinds that all runs have")
            for heading, about, _ in QUANTITIES.values()
        ),
    ]
    means = {quantity: timeline.means(quantity) for quantity in QUANTITIES}
    lines = []
    for place, run in enumerate(timeline.runs):
        cells = [Cell(run.name, run.name), Cell(run.date, run.at), cell(len(chosen_rows(run.board)), str)]
        cells += [cell(run.noise, percent)]
        for quantity, (_, _, format_value) in QUANTITIES.items():
            cells.append(cell(means[quantity][place] if means[quantity] else None, format_value))
        lines.append(TableRow(cells))
    return PageTable("The runs in the order of their time", columns, lines)


def _kinds_table(timeline: Timeline, quantity: str) -> PageTable:
    _, about, format_value = QUANTITIES[quantity]
    columns = [Column("kind", is_number=False), *(Column(run.name, run.date) for run in timeline.runs)]
    columns.append(Column("change", "from the first run that has the kind to the last"))
    lines = []
    for kind in timeline.kinds:
        change = timeline.change(kind, quantity)
        cells = [Cell(kind, kind), *(cell(value, format_value) for value in timeline.values(kind, quantity))]
        lines.append(TableRow([*cells, Cell(signed(quantity, change) or "-", change)]))
    return PageTable(f"{TITLES[quantity]}: {about}", columns, lines)


def _plot(timeline: Timeline, quantity: str) -> Plot:
    names = [run.name for run in timeline.runs]
    kinds = sorted(timeline.kinds, key=lambda kind: -abs(timeline.change(kind, quantity) or 0.0))[:MOST_LINES]
    marks: list[Mark] = []
    for kind, color in zip(kinds, COLORS, strict=False):
        marks += _line(kind, names, timeline.values(kind, quantity), color, quantity)
    values = [value for kind in kinds for value in timeline.values(kind, quantity)]
    means: list[float | None] = [*timeline.means(quantity)]
    if means:
        marks += _line("mean of the common kinds", names, means, "ink", quantity, width=3)
    caption = f"{QUANTITIES[quantity][1].capitalize()}, from the earliest run to the latest; below is better."
    if len(timeline.kinds) > MOST_LINES:
        caption += f" The {MOST_LINES} kinds that changed most are drawn, of {len(timeline.kinds)}."
    x = Axis("", "point", domain=tuple(names))
    y = Axis("us" if quantity == "us_1" else "", "log", FORMATS[quantity], span(values, means, scale="log"))
    return Plot(f"{TITLES[quantity]} over the runs", caption, x, y, marks, height=320)


def _line(
    label: str, names: Sequence[str], values: Sequence[float | None], color: str, quantity: str, width: float = 1.5
) -> list[Mark]:
    told = [
        f"{label}, {name}\n{format_quantity(quantity, value) if value is not None else 'nothing'}"
        for name, value in zip(names, values, strict=True)
    ]
    return [
        line(names, values, color, label, strokeWidth=width),
        dots(names, values, color, titles=told, radius=2 + width),
    ]
