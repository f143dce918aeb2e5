"""The tables of a page: what a cell shows, and the number it is sorted by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medn.choosing.leaderboard import Leaderboard, arranged
from medn.core.units import format_bytes, percent
from medn.report.leaderboard_rows import Row, chosen_by_kind
from medn.report.reasons import reason


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | str | None = None
    """What the column is sorted by; None stands last."""
    link: str = ""
    verdict: str = ""
    """Whose colour it has."""


@dataclass(frozen=True)
class Column:
    heading: str
    about: str = ""
    is_number: bool = True
    wraps: bool = False
    """Whether long texts may take several lines."""


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
    "mape_low": (Column("from", "the mean error of other layers lies above this, at 95 %"), percent),
    "mape_high": (Column("to", "and below this"), percent),
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
    "noise_mean": (Column("noise", "how far two halves of the measurements disagree, on average"), percent),
    "calm_mape": (Column("calm", "MAPE on test layers but those that were never calm"), percent),
    "never_calm_mape": (Column("never calm", "MAPE on test layers of which something slowed every visit"), percent),
    "us_1": (Column("us, 1 row", "microseconds for one prediction"), number(3)),
    "us_100": (Column("us, 100", "microseconds per row when 100 are asked at once"), number(3)),
    "us_10000": (Column("us, 10,000", "microseconds per row when 10,000 are asked at once"), number(3)),
    "bytes": (Column("size", "of the deployed form"), format_bytes),
    "load_ms": (Column("load, ms", "from its saved parts to the first prediction"), number(3)),
    "resident_bytes": (Column("memory", "while loaded"), format_bytes),
    "fit_s": (Column("fit, s", "of the best settings, once"), number(3)),
}
"""The columns of a leaderboard after the names, in the order in which they are shown."""


def leaderboard_table(board: Leaderboard, links: Mapping[tuple[str, str], str]) -> PageTable:
    """Every candidate, each kind by itself, the smallest error first; `links` lead to the section of a kind."""
    columns = [
        Column("kind", is_number=False),
        Column("candidate", is_number=False),
        LEADERBOARD["mape"][0],
        Column("why", "why it was chosen, or was not, or failed", is_number=False, wraps=True),
        *(column for key, (column, _) in LEADERBOARD.items() if key != "mape"),
        Column("Pareto", "no other is better in error, time and size alike", is_number=False),
        Column("note", is_number=False, wraps=True),
    ]
    several = len({row["device"] for row in board.rows}) > 1
    chosen = chosen_by_kind(board.rows)
    lines = []
    for row in arranged(board.rows):
        section = row["device"], row["kind"]
        name = f"{row['kind']} on {row['device']}" if several else row["kind"]
        why = reason(row, chosen.get(section), board.budget)
        note = row["note"] if row["mape"] is not None and row["note"] else ""
        numbers = {key: cell(row.get(key), format_value) for key, (_, format_value) in LEADERBOARD.items()}
        cells = [
            Cell(name, name, links.get(section, "")),
            Cell(row["candidate"], row["candidate"]),
            numbers.pop("mape"),
        ]
        cells += [Cell(why, why), *numbers.values(), Cell("yes" if row["pareto"] else "no", row["pareto"])]
        lines.append(TableRow([*cells, Cell(note, note)], links.get(section, "").lstrip("#"), row["chosen"]))
    caption = "All candidates on layers that nothing was learned from, by kind, the smallest error first"
    return PageTable(caption, columns, lines)


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
    columns += [Column("note", is_number=False, wraps=True)]
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
