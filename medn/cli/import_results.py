"""`medn import --plan`: what benchmark tools told of the layers of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import say, write_json, write_rows

if TYPE_CHECKING:
    from medn.benchmark_tools.import_results import ResultsOutcome

MOST_SHOWN = 10
"""Reasons and names that are shown; JSON has them all."""


def complete_tools(incomplete: str) -> list[str]:
    from medn.benchmark_tools.tool import benchmark_tools

    return [name for name in benchmark_tools if name.startswith(incomplete)]


ToolOption = Annotated[
    str,
    typer.Option(
        "--tool", help="With --plan: what wrote them; found by itself if left out.", autocompletion=complete_tools
    ),
]


def write_results(
    plan: Path, paths: Sequence[Path], run: Path, device: str, tool: str, mix_environments: bool, as_json: bool
) -> None:
    """Import results, and tell what became of them."""
    from medn.benchmark_tools.import_results import import_results
    from medn.benchmark_tools.layer_plan import read_plan
    from medn.runs.folder import RunFolder

    outcome = import_results(
        read_plan(plan), paths, RunFolder(run), device=device, tool=tool, mix_environments=mix_environments
    )
    if as_json:
        write_json({"run": str(run), **asdict(outcome)})
    else:
        shown = outcome.refused[:MOST_SHOWN]
        write_rows([{"results": count, "left out because": reason} for reason, count in shown], as_json=False)
        if len(outcome.refused) > len(shown):
            say(f"and {len(outcome.refused) - len(shown)} further reasons; --json shows them all")
    _say(outcome, run)


def _say(outcome: ResultsOutcome, run: Path) -> None:
    for statistic, count in outcome.statistics.items():
        say(
            f"{count} results are only the {statistic} of all runs: how calls spread is not known of them, "
            "nor how well they repeat unless there are several"
        )
    if outcome.known:
        say(f"{outcome.known} results were there already, or given twice, and count once")
    if outcome.several:
        say(f"{outcome.several} points have several results, each of which is a visit")
    if outcome.missing:
        names = ", ".join(outcome.missing[:3])
        more = f" and {len(outcome.missing) - 3} more" if len(outcome.missing) > 3 else ""
        say(f"no result yet of {len(outcome.missing)} points: {names}{more}")
    say(
        f"{outcome.files} files read, {outcome.imported} results imported into {run}; "
        f"{outcome.points} of {outcome.planned} points of the plan are measured"
    )
