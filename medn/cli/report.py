"""`medn report`: one HTML file about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json
from medn.cli.summary import RunArgument
from medn.core.errors import UsageError

OpenOption = Annotated[bool, typer.Option("--open", help="Show it in the browser.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write it.")]


def report(
    run: RunArgument,
    open_page: OpenOption = False,
    out: OutOption = None,
    by: Annotated[
        str, typer.Option("--by", metavar="A,B", help="The two parameters of the heat maps; those that matter most.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write a report of a run as one HTML file.

    It needs no network, opens from disk, and shows what was chosen by medn select, how good it is and where it errs.

    \b
    Examples:
      medn report runs/quickstart
      medn report runs/laptop --open
      medn report runs/laptop --by in_channels,out_channels --out laptop.html
    """
    from medn.report.content import gather
    from medn.report.page import need_libraries, report_page, write_page
    from medn.report.words import advice, summary

    need_libraries()
    content = gather(run, _two_names(by))
    path = write_page(out or run / "report.html", report_page(content))
    told = {"summary": summary(content), "advice": advice(content)}
    if as_json:
        write_json({"report": str(path), "bytes": path.stat().st_size, **told})
    else:
        for sentence in [*told["summary"], *told["advice"]]:
            say(sentence)
        typer.echo(path)
    if open_page:
        show(path)


def show(path: Path) -> None:
    """Open a page in the user's browser; where there is none, say where the page is."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be opened; the page is {path.resolve()}")


def _two_names(by: str) -> tuple[str, str] | None:
    if not by:
        return None
    names = [name.strip() for name in by.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(f"--by: must be two different names with a comma between them, as in a,b (got {by!r})")
    return names[0], names[1]
