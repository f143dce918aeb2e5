"""`medn merge`: runs that were made apart, as one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.core.units import percent

if TYPE_CHECKING:
    from medn.merging.merge_runs import MergeOutcome
    from medn.merging.overlap import Overlap


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, at least two; only read.")],
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder that gets all of them.")],
    keep_apart: Annotated[
        bool,
        typer.Option("--keep-apart", help="Name devices DEVICE@RUN where machines differ, or disagree beyond noise."),
    ] = False,
    mix_environments: Annotated[
        bool, typer.Option("--mix-environments", help="Keep different machines under one name, each row marked.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4, and merge nothing, if runs disagree beyond noise.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make one run of runs that were made apart.

    Points that several runs have are compared: how far the runs are apart there, and how well each repeats by itself.
    Visits of all are kept; one that stands in several runs, such as a run and its copy, is taken once. Devices of one
    name must have been measured on machines alike. The same command again adds what the runs have more by then.

    \b
    Examples:
      medn merge runs/monday runs/tuesday --out runs/week
      medn merge runs/board-a runs/board-b --out runs/boards --keep-apart
    """
    from medn.cli.progress import RowProgress
    from medn.merging.merge_runs import merge_runs
    from medn.runs.folder import RunFolder

    progress = RowProgress("visits")
    outcome = merge_runs(
        runs,
        RunFolder(out),
        keep_apart=keep_apart,
        mix_environments=mix_environments,
        strict=strict,
        on_visits=progress.on_rows,
    )
    if as_json:
        overlaps = [{**asdict(each), "beyond_noise": each.beyond_noise} for each in outcome.overlaps]
        write_json({"run": str(out), **asdict(outcome), "overlaps": overlaps})
    else:
        write_rows([_row(each) for each in outcome.overlaps], as_json=False)
    _say(outcome, out)


def _row(overlap: Overlap) -> Row:
    return {
        "device": overlap.device,
        "kind": overlap.kind,
        "load": "loaded" if overlap.loaded else "idle",
        "runs": overlap.runs,
        "points": overlap.points,
        "apart": percent(overlap.difference),
        "noise": percent(overlap.noise),
        "second over first": f"{overlap.ratio:.3f}",
    }


def _say(outcome: MergeOutcome, out: Path) -> None:
    for note in outcome.notes:
        say(note)
    for run, device, name in outcome.renamed:
        say(f"{device} of {run} is called {name}")
    for each in outcome.beyond_noise:
        say(
            f"{each.kind} on {each.device} differs by {percent(each.difference)} between {' and '.join(each.runs)}, "
            f"where each repeats to {percent(each.noise)}: look at what differed, or keep them apart with --keep-apart"
        )
    if outcome.shared:
        say(f"{outcome.shared} visits stand in several of the runs and were taken once")
    if not outcome.overlaps:
        say("no point was measured in two of the runs, so nothing tells whether they agree")
    say(f"{outcome.points} points, {outcome.visits} visits, {outcome.added} of them new, in {out}")
