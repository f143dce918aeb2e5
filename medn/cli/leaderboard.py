"""`medn leaderboard`: every candidate of a run side by side, and what each way to select gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.summary import RunArgument
from medn.cli.train import KindsOption, names_option
from medn.core.errors import UsageError
from medn.core.units import percent, percent_between

LEGEND = """* chosen, p on the Pareto front; errors on test layers, the mean with its 95 % interval; beyond: with
more work than was learned from, held at the efficiency of the edge, as the form goes on by its own, or that bounded by
the work. --schemes compares ways to select, --json and --csv have all columns"""

SCHEMES_LEGEND = """means over layer kinds, bytes of all together; the gain is that of the chosen selection, in points
of accuracy on test layers with its 95 % interval"""


def leaderboard(
    run: RunArgument,
    sort: Annotated[str, typer.Option("--sort", metavar="COLUMN", help="Any column of the JSON.")] = "mape",
    kinds: KindsOption = "",
    candidates: Annotated[str, typer.Option("--candidates", metavar="A,B", help="Only these candidates.")] = "",
    pareto: Annotated[bool, typer.Option("--pareto", help="Only what no other candidate of the kind beats.")] = False,
    chosen: Annotated[bool, typer.Option("--chosen", help="Only what was chosen.")] = False,
    schemes: Annotated[bool, typer.Option("--schemes", help="The ways to select, in place of candidates.")] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Show the candidates of every kind: errors on test layers, intervals, time, bytes, and what was chosen.

    `medn select RUN` writes it. Errors are shares in JSON and CSV.

    \b
    Examples:
      medn leaderboard runs/laptop
      medn leaderboard runs/laptop --kinds conv2d --sort us_1
      medn leaderboard runs/laptop --schemes
      medn leaderboard runs/laptop --chosen --markdown
    """
    from medn.choosing.leaderboard import arranged, csv_text, load_leaderboard

    if as_json + as_csv + as_markdown > 1:
        raise UsageError("choose one of --json, --csv and --markdown")
    board = load_leaderboard(run)
    rows: Sequence[Mapping[str, Any]]
    if schemes:
        rows, shown, failures = board.schemes, [_scheme_row(row) for row in board.schemes], []
    else:
        rows = arranged(
            board.rows, sort, names_option(kinds, "--kinds"), names_option(candidates, "--candidates"), pareto, chosen
        )
        several = len({row["device"] for row in board.rows}) > 1
        apart = any(row.get("never_calm") for row in rows)
        shown = [_candidate_row(row, several, apart) for row in rows if row["mape"] is not None]
        failures = _failures(rows)
    if as_json:
        write_json({**board.as_json(), **({} if schemes else {"rows": rows})})
    elif as_csv:
        typer.echo(csv_text(rows), nl=False)
    elif as_markdown:
        _write_markdown(shown)
        _write_markdown(failures)
    else:
        write_rows(shown, as_json=False)
        write_rows(failures, as_json=False)
        say(SCHEMES_LEGEND if schemes else LEGEND)
        for warning in [] if schemes else _warnings(rows):
            say(warning)
        if board.shipped_sentence:
            say(board.shipped_sentence)


def _candidate_row(row: Row, with_device: bool, apart: bool) -> dict[str, Any]:
    """What fits on a screen: the weights of an ensemble and the like are in the JSON."""
    size = row["bytes"]
    return {
        **({"device": row["device"]} if with_device else {}),
        "kind": row["kind"],
        "candidate": row["candidate"],
        "": ("*" if row["chosen"] else " ") + ("p" if row["pareto"] else ""),
        "MAPE": percent_between(row["mape"], row.get("mape_low"), row.get("mape_high")),
        **({"calm": percent(row["calm_mape"]), "never calm": percent(row["never_calm_mape"])} if apart else {}),
        "median": percent(row["median"]),
        "within 10 %": percent(row["within_10"]),
        "R2": _number(row["r2"]),
        "covered": percent(row["coverage"]),
        "beyond": _beyond(row),
        "us, 1 row": _number(row["us_1"]),
        "100": _number(row["us_100"]),
        "10,000": _number(row["us_10000"]),
        "kB": None if size is None else _number(size / 1e3),
    }


def _beyond(row: Row) -> str | None:
    """The error on larger layers than were learned from, and how it is predicted."""
    parts = [percent(row["extrapolation_mape"]), row.get("beyond")]
    return " ".join(part for part in parts if part) or None


def _warnings(rows: Sequence[Row]) -> list[str]:
    from medn.deployed.calibration import width_warning

    warnings = [
        width_warning(f"{row['candidate']} for {row['kind']} on {row['device']}", row.get("inside_width"))
        for row in rows
    ]
    return [warning for warning, row in zip(warnings, rows, strict=True) if warning and row["chosen"]]


def _failures(rows: Sequence[Row]) -> list[Row]:
    return [
        {"device": row["device"], "kind": row["kind"], "candidate": row["candidate"], "failed because": row["note"]}
        for row in rows
        if row["mape"] is None
    ]


def _scheme_row(row: Row) -> Row:
    gain = row["gain"]
    return {
        "scheme": row["name"],
        "accuracy": percent(row["accuracy"]),
        "R2": _number(row["r2"]),
        "us, 1 row": _number(row["us_1"]),
        "100": _number(row["us_100"]),
        "10,000": _number(row["us_10000"]),
        "kB": _number(row["bytes"] / 1e3),
        "chosen gains": f"{100 * gain['value']:+.2f} ({100 * gain['low']:+.2f} to {100 * gain['high']:+.2f})",
        "note": row["note"],
    }


def _number(value: float | None) -> str | None:
    """Three digits, and all of those before the point."""
    if value is None:
        return None
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _write_markdown(rows: Sequence[Row]) -> None:
    if not rows:
        return
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [["" if value is None else str(value).replace("|", "\\|") for value in row.values()] for row in rows]
    for line in lines:
        typer.echo(f"| {' | '.join(line)} |")
    typer.echo()
