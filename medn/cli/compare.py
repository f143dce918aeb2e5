"""`medn compare`: what two runs chose, side by side, or what several chose, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.report import OpenOption, OutOption, show, write_out
from medn.core.errors import UsageError

if TYPE_CHECKING:
    from medn.report.compare import Pair
    from medn.report.timeline import Timeline


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_A RUN_B [RUN]...", help="Two run folders or more.")],
    open_page: OpenOption = False,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was chosen in two runs, kind by kind, or in several over time.

    Differences of two are RUN_B less RUN_A. More are put into the order in which they were measured, and their errors
    are shown. The same as a page goes to compare.html in the last run that is given.

    \b
    Examples:
      medn compare runs/quickstart runs/laptop
      medn compare runs/before runs/after --open
      medn compare runs/monday runs/tuesday runs/friday
    """
    from medn.report.page import need_libraries

    if len(runs) < 2:
        raise UsageError(f"{runs[0]} is one run: name another to compare it with, as in medn compare {runs[0]} RUN")
    need_libraries()
    path = out or runs[-1] / "compare.html"
    told = _two(runs[0], runs[1], path, as_json) if len(runs) == 2 else _several(runs, path, as_json)
    if as_json:
        write_json(told)
    if open_page:
        show(path)


def _two(first: Path, second: Path, path: Path, as_json: bool) -> dict[str, Any]:
    from medn.report.compare import compare as compare_runs
    from medn.report.compare import comparison_page, comparison_sentences

    comparison = compare_runs(first, second)
    write_out(path, comparison_page(comparison))
    sentences = comparison_sentences(comparison)
    if not as_json:
        _write([_row(pair) for pair in comparison.pairs], sentences, path)
    kinds = [pair.as_json() for pair in comparison.pairs]
    return {"a": str(first), "b": str(second), "page": str(path), "summary": sentences, "kinds": kinds}


def _several(runs: Sequence[Path], path: Path, as_json: bool) -> dict[str, Any]:
    from medn.report.timeline import over_time, timeline_json, timeline_page, timeline_sentences

    timeline = over_time(runs)
    write_out(path, timeline_page(timeline))
    sentences = timeline_sentences(timeline)
    if not as_json:
        _write(_error_rows(timeline), sentences, path)
    return {"page": str(path), "summary": sentences, **timeline_json(timeline)}


def _write(rows: Sequence[Row], sentences: Sequence[str], path: Path) -> None:
    write_rows(rows, as_json=False)
    for sentence in sentences:
        say(sentence)
    say(f"as a page: {path}")


def _row(pair: Pair) -> Row:
    from medn.report.compare import QUANTITIES, signed

    row: dict[str, str | None] = {"kind": pair.name}
    for letter, side in (("A", pair.first), ("B", pair.second)):
        row[letter] = side["candidate"] if side else None
    for quantity, (heading, _, format_value) in QUANTITIES.items():
        for letter, side in (("A", pair.first), ("B", pair.second)):
            row[f"{heading} {letter}"] = format_value(side[quantity]) if side else None
        row[f"{heading} B-A"] = signed(quantity, pair.difference(quantity))
    return row


def _error_rows(timeline: Timeline) -> list[Row]:
    """The error of each kind in every run, the earliest first, and what all kinds that they share err by."""
    from medn.core.units import percent
    from medn.report.compare import signed

    names = [run.name for run in timeline.runs]
    rows: list[Row] = []
    for kind in timeline.kinds:
        errors = dict(zip(names, map(percent, timeline.values(kind, "mape")), strict=True))
        rows.append({"kind": kind, "change": signed("mape", timeline.change(kind, "mape")), **errors})
    return rows
