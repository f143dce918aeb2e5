"""The tables of a page: what a cell shows, and the number it is sorted by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medn.core.units import format_bytes, percent
from medn.report.leaderboard_rows import Row


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | str | None = None
    """What the column is sorted by; None stands last."""
    link: str = ""


@dataclass(frozen=True)
class Column:
    heading: str
    about: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class TableRow:
    cells: Sequence[Cell]
    kind: str = ""
    """Where the reader may choose a kind: the one this line belongs to."""
    is_marked: bool = False


@dataclass(frozen=True)
class PageTable:
    caption: str
    columns: Sequence[Column]
    lines: Sequence[TableRow]


Formatter = Callable[[Any], str | None]


def number(digits: int) -> Formatter:
    return lambda value: f"{value:.{digits}g}"


def fixed(digits: int) -> Formatter:
    return lambda value: f"{value:.{digits}f}"


def cell(value: Any, format_value: Formatter) -> Cell:
    """A formatted value, sorted by the value itself; a dash where there is none."""
    return Cell("-", None) if value is None else Cell(format_value(value) or "", value)


LEADERBOARD: Mapping[str, tuple[Column, Formatter]] = {
    "mape": (Column("MAPE", "mean relative error on test layers"), percent),
    "median": (Column("median", "median relative error"), percent),
    "p90": (Column("p90", "nine of ten errors are below this"), percent),
    "within_5": (Column("within 5 %", "share of predictions that close"), percent),
    "within_10": (Column("within 10 %", "share of predictions that close"), percent),
    "r2": (Column("R2", "share of the variance explained, on the real scale"), fixed(3)),
    "spearman": (Column("rank", "Spearman correlation: 1 orders all layers correctly"), fixed(3)),
    "validation_mape": (Column("validation", "MAPE on the layers it was chosen by"), percent),
    "extrapolation_mape": (Column("beyond", "MAPE on larger layers than it learned from"), percent),
    "extrapolation_held_mape": (Column("held", "the same, held at the efficiency of the edge"), percent),
    "extrapolation_own_mape": (Column("own", "the same, as the form goes on by itself"), percent),
    "coverage": (Column("covered", "share of test points inside the interval"), percent),
    "width": (Column("width", "mean width of the interval, as a share of the prediction"), percent),
    "noise_median": (Column("noise", "how well the measurements repeat: median"), percent),
    "us_1": (Column("us, 1 row", "microseconds for one prediction"), number(3)),
    "us_100": (Column("us, 100", "microseconds per row when 100 are asked at once"), number(3)),
    "us_10000": (Column("us, 10,000", "microseconds per row when 10,000 are asked at once"), number(3)),
    "bytes": (Column("size", "of the deployed form"), format_bytes),
    "load_ms": (Column("load, ms", "from its saved parts to the first prediction"), number(3)),
    "resident_bytes": (Column("memory", "while loaded"), format_bytes),
    "fit_s": (Column("fit, s", "of the best settings, once"), number(3)),
}
"""The columns of a leaderboard after the names, in the order in which they are shown."""


def leaderboard_table(rows: Iterable[Row], links: Mapping[tuple[str, str], str]) -> PageTable:
    """Every candidate of every kind; `links` lead to the section of a kind."""
    columns = [Column("kind", is_number=False), Column("candidate", is_number=False)]
    columns += [column for column, _ in LEADERBOARD.values()]
    columns += [
        Column("Pareto", "no other is better in error, time and size alike", is_number=False),
        Column("note", is_number=False),
    ]
    several = len({row["device"] for row in rows}) > 1
    lines = []
    for row in rows:
        section = row["device"], row["kind"]
        name = f"{row['kind']} on {row['device']}" if several else row["kind"]
        candidate = f"{row['candidate']} (chosen)" if row["chosen"] else row["candidate"]
        cells = [Cell(name, name, links.get(section, "")), Cell(candidate, row["candidate"])]
        cells += [cell(row.get(key), format_value) for key, (_, format_value) in LEADERBOARD.items()]
        cells += [Cell("yes" if row["pareto"] else "no", row["pareto"]), Cell(row["note"] or "", row["note"] or "")]
        lines.append(TableRow(cells, links.get(section, "").lstrip("#"), row["chosen"]))
    return PageTable("All candidates on layers that nothing was learned from", columns, lines)


SCHEMES: Mapping[str, tuple[Column, Formatter]] = {
    "accuracy": (Column("accuracy", "1 - MAPE"), percent),
    "mape": (Column("MAPE", "mean relative error"), percent),
    "r2": (Column("R2"), fixed(4)),
    "us_1": (Column("us, 1 row"), number(3)),
    "us_100": (Column("us, 100"), number(3)),
    "us_10000": (Column("us, 10,000"), number(3)),
    "bytes": (Column("size"), format_bytes),
}


def schemes_table(schemes: Iterable[Row]) -> PageTable:
    columns = [Column("scheme", is_number=False), *(column for column, _ in SCHEMES.values())]
    columns += [Column("note", is_number=False)]
    lines = [
        TableRow(
            [
                Cell(row["name"], row["name"]),
                *(cell(row.get(key), format_value) for key, (_, format_value) in SCHEMES.items()),
                Cell(row.get("note") or "", row.get("note") or ""),
            ]
        )
        for row in schemes
    ]
    return PageTable("Ways to choose, all kinds together", columns, lines)
