"""`medn compare`: what two runs chose, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.report import OpenOption, OutOption, show, write_out

if TYPE_CHECKING:
    from medn.report.compare import Pair


def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="A run folder.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run folder to compare with it.")],
    open_page: OpenOption = False,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was chosen in two runs, kind by kind.

    Differences are RUN_B less RUN_A. The same as a page goes to RUN_B/compare.html.

    \b
    Examples:
      medn compare runs/quickstart runs/laptop
      medn compare runs/before runs/after --open
    """
    from medn.report.compare import compare as compare_runs
    from medn.report.compare import comparison_page, comparison_sentences
    from medn.report.page import need_libraries

    need_libraries()
    comparison = compare_runs(first, second)
    path = write_out(out or second / "compare.html", comparison_page(comparison))
    if as_json:
        write_json(
            {
                "a": str(first),
                "b": str(second),
                "page": str(path),
                "summary": comparison_sentences(comparison),
                "kinds": [pair.as_json() for pair in comparison.pairs],
            }
        )
    else:
        write_rows([_row(pair) for pair in comparison.pairs], as_json=False)
        for sentence in comparison_sentences(comparison):
            say(sentence)
        say(f"as a page: {path}")
    if open_page:
        show(path)


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
