"""Two runs side by side: what was chosen in each, kind by kind, and what only one of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medn.choosing.leaderboard import Leaderboard, load_leaderboard
from medn.core.units import format_bytes, percent
from medn.report.leaderboard_rows import Row, chosen_rows
from medn.report.page import render
from medn.report.plots import Axis, Format, Plot, dots, mark, span
from medn.report.summary_text import joined
from medn.report.tables import Cell, Column, Formatter, PageTable, TableRow, cell, leaderboard_table, number

SAME = 0.02
"""Means that differ by less than this share are called the same."""

FACTOR = 2.0
"""From so many times as much on, or as little, a factor says more than per cent."""

QUANTITIES: Mapping[str, tuple[str, str, Formatter]] = {
    "mape": ("error", "mean relative error on layers not seen", percent),
    "us_1": ("us", "microseconds for one prediction", number(3)),
    "bytes": ("size", "of the deployed form", format_bytes),
}

TITLES = {"mape": "Mean error", "us_1": "Time of one prediction", "bytes": "Size"}
FORMATS: Mapping[str, Format] = {"mape": "percent", "us_1": "number", "bytes": "bytes"}


@dataclass(frozen=True)
class Pair:
    """The chosen candidates of one kind in both runs; None where a run has none."""

    name: str
    first: Row | None
    second: Row | None

    def difference(self, quantity: str) -> float | None:
        """Second less first, relative to the first but for errors, which are shares already."""
        if self.first is None or self.second is None or self.first[quantity] in (None, 0):
            return None
        before, after = float(self.first[quantity]), float(self.second[quantity])
        return after - before if quantity == "mape" else after / before - 1

    def as_json(self) -> dict[str, Any]:
        def side(row: Row | None) -> dict[str, Any] | None:
            return {"candidate": row["candidate"], **{name: row[name] for name in QUANTITIES}} if row else None

        differences = {name: self.difference(name) for name in QUANTITIES}
        return {"kind": self.name, "a": side(self.first), "b": side(self.second), "difference": differences}


@dataclass(frozen=True)
class Comparison:
    names: tuple[str, str]
    boards: tuple[Leaderboard, Leaderboard]
    pairs: tuple[Pair, ...]

    @property
    def common(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.first and pair.second]

    @property
    def unmatched(self) -> list[Pair]:
        """Kinds that only one of the runs has."""
        return [pair for pair in self.pairs if not (pair.first and pair.second)]


def compare(first: Path, second: Path) -> Comparison:
    boards = load_leaderboard(first), load_leaderboard(second)
    names = run_names([first, second])
    sides = chosen_by_name(boards)
    kinds = sorted({*sides[0], *sides[1]})
    return Comparison(
        (names[0], names[1]), boards, tuple(Pair(name, sides[0].get(name), sides[1].get(name)) for name in kinds)
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """The names of the folders, or their paths where these are not all different."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def chosen_by_name(boards: Sequence[Leaderboard]) -> list[dict[str, Row]]:
    """What was chosen in each run, by the name of the kind."""
    return [_by_name(board, _one_device_each(boards)) for board in boards]


def _one_device_each(boards: Sequence[Leaderboard]) -> bool:
    """Then kinds are compared though the devices may differ: how two devices compare is a question people ask."""
    return all(len({row["device"] for row in board.rows}) == 1 for board in boards)


def _by_name(board: Leaderboard, kind_alone: bool) -> dict[str, Row]:
    return {row["kind"] if kind_alone else f"{row['kind']} on {row['device']}": row for row in chosen_rows(board)}


def signed(quantity: str, difference: float | None) -> str | None:
    """A difference with its sign: errors in percentage points, costs in per cent of the first, or as a factor.

    >>> signed("us_1", 0.5), signed("us_1", 1221.4), signed("bytes", -0.75)
    ('+50 %', 'x 1,222', '/ 4')
    """
    if difference is None:
        return None
    if quantity == "mape":
        return f"{difference * 100:+.1f} points"
    times = _factor(difference)
    return f"{'x' if difference > 0 else '/'} {times}" if times else f"{difference * 100:+.0f} %"


def _factor(change: float) -> str | None:
    """How many times as much or as little a relative change makes; None where per cent are read more easily."""
    times = 1 + change if change > 0 else 1 / (1 + change) if change > -1 else 0.0
    return None if times < FACTOR else f"{float(f'{times:.2g}'):g}" if times < 10 else f"{times:,.0f}"


def _verdict(change: float, more: str, less: str) -> str:
    """A relative change in words."""
    if abs(change) < SAME:
        return "about the same"
    word, times = more if change > 0 else less, _factor(change)
    return f"{word} by a factor of {times}" if times else f"{abs(change) * 100:.0f} % {word}"


def format_quantity(quantity: str, value: float) -> str:
    """With its unit.

    >>> format_quantity("us_1", 12.345)
    '12.3 us'
    """
    return f"{QUANTITIES[quantity][2](value)}" + (" us" if quantity == "us_1" else "")


def comparison_sentences(comparison: Comparison) -> list[str]:
    """The comparison in sentences."""
    first, second = comparison.names
    if not comparison.common:
        return [f"{first} and {second} have no layer kind in common.", *_unmatched_sentences(comparison)]
    sentences = []
    for quantity, more, less, what in (
        ("mape", "larger", "smaller", "error"),
        ("us_1", "slower", "faster", "prediction"),
        ("bytes", "larger", "smaller", "size"),
    ):
        means = [
            sum(float(row[quantity]) for pair in comparison.common if (row := getattr(pair, side)))
            / len(comparison.common)
            for side in ("first", "second")
        ]
        change = means[1] / means[0] - 1 if means[0] else 0.0
        before, after = (format_quantity(quantity, mean) for mean in means)
        sentences.append(f"{what} {before} and {after} ({_verdict(change, more, less)})")
    kinds = f"{len(comparison.common)} common layer kind" + ("" if len(comparison.common) == 1 else "s")
    return [
        f"Means over the {kinds}, {first} first, {second} second: {joined(sentences)}.",
        *_unmatched_sentences(comparison),
    ]


def _unmatched_sentences(comparison: Comparison) -> list[str]:
    sentences = []
    for side, name in enumerate(comparison.names):
        only = [pair.name for pair in comparison.unmatched if (pair.second, pair.first)[side] is None]
        sentences += [f"Only {name} has {joined(only)}."] if only else []
    return sentences


def comparison_page(comparison: Comparison) -> str:
    return render(
        "compare.html",
        {
            "title": f"medn comparison: {comparison.names[0]} and {comparison.names[1]}",
            "names": comparison.names,
            "summary": comparison_sentences(comparison),
            "pairs": _pairs_table(comparison),
            "plots": _plots(comparison),
            "leaderboards": [
                (name, leaderboard_table(board, {}))
                for name, board in zip(comparison.names, comparison.boards, strict=True)
            ],
        },
    )


def _pairs_table(comparison: Comparison) -> PageTable:
    columns = [Column(heading, is_number=False) for heading in ("kind", "A", "B")]
    for heading, about, _ in QUANTITIES.values():
        columns += [Column(f"{heading} A", about), Column(f"{heading} B", about), Column("B less A")]
    lines = []
    for pair in comparison.pairs:
        sides = (pair.first, pair.second)
        cells = [Cell(pair.name, pair.name)]
        cells += [Cell(side["candidate"], side["candidate"]) if side else Cell("-") for side in sides]
        for quantity, (_, _, format_value) in QUANTITIES.items():
            cells += [cell(side[quantity] if side else None, format_value) for side in sides]
            difference = pair.difference(quantity)
            cells.append(Cell(signed(quantity, difference) or "-", difference))
        lines.append(TableRow(cells))
    return PageTable("The chosen predictors of both runs", columns, lines)


def _plots(comparison: Comparison) -> list[Plot]:
    return [_plot(comparison.common, quantity) for quantity in (QUANTITIES if comparison.common else ())]


def _plot(pairs: Sequence[Pair], quantity: str) -> Plot:
    """Two values for each kind on one line, joined, so that the difference is what one sees."""
    names = [pair.name for pair in pairs]
    sides = {"A": [pair.first for pair in pairs], "B": [pair.second for pair in pairs]}
    values = {letter: [row[quantity] for row in rows if row] for letter, rows in sides.items()}
    marks = [mark("link", x1=values["A"], x2=values["B"], y=names, stroke="grey", strokeWidth=1.5)]
    for letter, color in (("A", "green"), ("B", "blue")):
        told = [
            f"{name}, {letter}\n{format_quantity(quantity, value)}"
            for name, value in zip(names, values[letter], strict=True)
        ]
        marks.append(dots(values[letter], names, color, titles=told, label=letter, radius=5))
    about = f"{QUANTITIES[quantity][1].capitalize()}; left is better."
    x = Axis("", "log", FORMATS[quantity], span(values["A"], values["B"], scale="log"))
    return Plot(
        TITLES[quantity], about, x, Axis(scale="point", domain=tuple(names)), marks, 62 + 24 * max(len(names), 3)
    )
