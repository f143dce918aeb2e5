"""`medn summary`: what a run holds, and how far to trust it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_record, write_rows
from medn.cli.verbosity import is_verbose
from medn.core.errors import UsageError
from medn.core.mistaken import told_instead
from medn.core.units import format_latency, percent

if TYPE_CHECKING:
    from medn.core.statistic import NoiseFloor
    from medn.core.store import Store
    from medn.runs.summary import KindSummary, RunSummary

MOST_REASONS = 10
"""Reasons for failures that are shown; JSON has them all."""


def _not_a_file(path: Path) -> Path:
    """A run folder may hold anything, or not be there yet. The only file that stands for one is its exported table."""
    if path.is_file() and path.suffix != ".parquet":
        raise UsageError(f"{path} is no run folder{told_instead(path)}")
    return path


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", callback=_not_a_file)]


def summary(
    run: RunArgument,
    as_json: AsJson = False,
) -> None:
    """Show what a run holds and how well it repeats.

    The noise is how far two halves of the visits to the same points disagree, on average. --verbose also shows how
    every statistic repeats.

    \b
    Examples:
      medn summary runs/quickstart
      medn summary runs/quickstart --verbose
    """
    from medn.runs.folder import RunFolder
    from medn.runs.summary import summarise

    with RunFolder(run).store(must_exist=True) as store:
        run_summary = summarise(store)
        if as_json:
            write_json(summary_json(run_summary, store))
        else:
            write_summary(run_summary, store, verbose=is_verbose())


def summary_json(run_summary: RunSummary, store: Store) -> dict[str, Any]:
    return {**run_summary.as_json(), "environments": store.environments(), "blocks": _blocks_json(store)}


def write_summary(run_summary: RunSummary, store: Store, *, verbose: bool = False) -> None:
    """The summary as tables on stdout."""
    write_record(_overview(run_summary, store), as_json=False)
    write_rows([_kind_row(kind) for kind in run_summary.kinds], as_json=False)
    if verbose:
        write_rows([_repeats(name, floor) for name, floor in run_summary.repeatability.items()], as_json=False)
    shown = run_summary.failures[:MOST_REASONS]
    write_rows([{"points": count, "not measured because": reason} for reason, count in shown], as_json=False)
    if len(run_summary.failures) > len(shown):
        say(f"and {len(run_summary.failures) - len(shown)} further reasons; --json shows them all")


def _overview(run_summary: RunSummary, store: Store) -> Row:
    from medn.core.environment import describe_environment

    noise = run_summary.idle_noise
    return {
        "points": run_summary.points,
        "status": run_summary.statuses,
        "visits": run_summary.visits,
        "samples": run_summary.samples,
        "latency, idle": str(run_summary.target.idle),
        "latency, under load": str(run_summary.target.loaded),
        "noise, idle": f"{percent(noise.mean)}; half of the points: {percent(noise.median)}" if noise else None,
        **_calm(run_summary),
        "disturbed samples": percent(run_summary.disturbed_samples),
        **({"visits by processor time": by_processor} if (by_processor := run_summary.processor_time_visits) else {}),
        **({"blocks of models": "; ".join(blocks)} if (blocks := _timed_blocks(store)) else {}),
        "measured on": "; ".join(describe_environment(environment) for environment in store.environments().values()),
    }


def _timed_blocks(store: Store) -> list[str]:
    """A sentence for each model whose blocks were timed beside its layers."""
    from medn.blocks.stays import stays_made

    return [f"{case}: {blocks} in turns, {stays} stays" for case, (blocks, stays) in stays_made(store).items()]


def _blocks_json(store: Store) -> list[dict[str, Any]]:
    from medn.blocks.stays import stays_made

    return [{**asdict(case), "blocks": blocks, "stays": stays} for case, (blocks, stays) in stays_made(store).items()]


def _calm(run_summary: RunSummary) -> Row:
    """Runs of earlier versions tell only how many visits were slowed much."""
    if run_summary.calm_visits is None:
        return {"visits while the machine was slowed": run_summary.drifted_visits}
    return {"calm visits": run_summary.calm_visits}


def _kind_row(kind: KindSummary) -> Row:
    return {
        "device": kind.device,
        "kind": kind.kind,
        "load": "loaded" if kind.loaded else "idle",
        "points": kind.points,
        "lowest": format_latency(kind.latency_low_s),
        "median": format_latency(kind.latency_median_s),
        "highest": format_latency(kind.latency_high_s),
        "noise": percent(kind.noise.mean) if kind.noise else None,
        "unstable": kind.unstable,
        "never calm": kind.never_calm,
        "output error": percent(kind.output_error),
    }


def _repeats(statistic: str, floor: NoiseFloor) -> Row:
    return {"statistic": statistic, "noise": percent(floor.mean), "half of the points": percent(floor.median)}
