"""`medn quickstart`: the whole flow on this machine, from nothing to predictions."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.sweep import RunOption, measure, seconds_option
from medn.cli.train import TrainProgress, need_libraries, say_warnings
from medn.core.errors import UsageError
from medn.core.units import format_duration, format_latency, percent

if TYPE_CHECKING:
    from medn.choosing.select_run import SelectOutcome
    from medn.deployed.candidate import Candidate
    from medn.quickstart.quickstart import FreshLayerCheck

TimeOption = Annotated[
    float, typer.Option("--time", metavar="TIME", parser=seconds_option, help="How long it may take: 120, 2m, 10m.")
]

EXPLAINED = (
    "Errors are on layers that no regressor has seen. The noise is how far two halves of the measurements of the same "
    "layer disagree: an error near it cannot be told from none."
)


def quickstart(time: TimeOption = 120.0, run: RunOption = None, as_json: AsJson = False) -> None:
    """Measure layers on this CPU, train, choose, and predict: everything once, in two minutes.

    The same command again goes on: it measures more, trains again and gets better.

    \b
    Examples:
      medn quickstart
      medn quickstart --time 10m --run runs/laptop
    """
    from medn.quickstart.quickstart import SHORTEST_S, SWEEP_SHARE, TRAIN_SHARE, check_fresh_layer, quick_config
    from medn.runs.folder import DEFAULT_ROOT, RunFolder

    need_libraries()
    if time < SHORTEST_S:
        raise UsageError(f"--time: must be at least {SHORTEST_S:g} seconds (got {time:g})")
    began = clock.monotonic()
    config = quick_config()
    folder = RunFolder(run or DEFAULT_ROOT / config.name)
    say(f"1 of 4: measuring layers on this CPU with {config.devices[0].name}, {format_duration(SWEEP_SHARE * time)}")
    measure(config, folder, SWEEP_SHARE * time, mix_environments=False)
    say(f"2 of 4: training regressors on what was measured, {format_duration(TRAIN_SHARE * time)}")
    _train(folder.path, TRAIN_SHARE * time)
    say("3 of 4: choosing the most accurate ones, and writing the bundle and the report")
    outcome, bundle, report = _finish(folder.path)
    say("4 of 4: measuring a layer that was not in the sweep, to compare")
    from medn.predictor.predictor import load

    check = check_fresh_layer(folder, config, load(bundle))
    if as_json:
        write_json(_as_json(outcome, check, bundle, report, clock.monotonic() - began))
        return
    write_rows([_row(candidate) for candidate in outcome.chosen], as_json=False)
    say(EXPLAINED)
    say_warnings(outcome.chosen)
    say(_compared(check))
    say(f"Done in {format_duration(clock.monotonic() - began)}. The report is {report.resolve()}")
    say(_next(folder.path, bundle))


def _train(run: Path, seconds: float) -> None:
    from medn.core.environment import usable_cores
    from medn.quickstart.quickstart import FAMILIES
    from medn.training.train_run import train_run

    with TrainProgress() as progress:
        train_run(run, seconds=seconds, families=FAMILIES, jobs=usable_cores(), on_progress=progress.on_progress)


def _finish(run: Path) -> tuple[SelectOutcome, Path, Path]:
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import select_run
    from medn.report.content import gather
    from medn.report.page import report_page, write_page
    from medn.selection.budget import Budget

    outcome = select_run(run, Budget())
    for lost in outcome.lost:
        say(f"nothing could be chosen for {lost.sentence}")
    bundle = bundle_run(run, outcome.chosen)
    return outcome, bundle, write_page(run / "report.html", report_page(gather(run)))


def _row(candidate: Candidate) -> Row:
    """A row that needs no explanation."""
    from medn.deployed.candidate import costs_of, scores_of

    test, noise = scores_of(candidate).test, candidate.facts.noise
    return {
        "layer kind": candidate.kind,
        "measured points": sum(candidate.facts.split_sizes.values()),
        "chosen regressor": candidate.regressor,
        "typical error": percent(test.median),
        "mean error": percent(test.mape),
        "within 10 %": percent(test.within_10),
        "noise of measuring": percent(noise.mean) if noise else None,
        "us per query": f"{costs_of(candidate).us_1:.0f}",
    }


def _compared(check: FreshLayerCheck) -> str:
    prediction, values = check.prediction, check.point.layer.values
    return (
        f"A fresh layer: conv2d {values['in_channels']} -> {values['out_channels']}, 3x3 at {values['in_h']}x"
        f"{values['in_w']}, batch size {check.point.condition.batch_size}: predicted "
        f"{format_latency(prediction.latency_s)} ({format_latency(prediction.low_s)} to "
        f"{format_latency(prediction.high_s)}), measured {format_latency(check.measured_s)}: "
        f"{abs(check.difference):.0%} {'above' if check.difference > 0 else 'below'} the measurement, which lies "
        f"{'inside' if check.is_inside else 'outside'} the interval."
    )


def _next(run: Path, bundle: Path) -> str:
    layer = "in_channels=64 out_channels=128 in_size=28 kernel_size=3 same_padding=true batch_size=4"
    return f"""Next:
  medn predict {bundle} conv2d {layer}
  medn leaderboard {run}
  medn quickstart --time 10m"""


def _as_json(
    outcome: SelectOutcome, check: FreshLayerCheck, bundle: Path, report: Path, elapsed_s: float
) -> dict[str, Any]:
    return {
        "bundle": str(bundle),
        "report": str(report),
        "chosen": [candidate.summary() for candidate in outcome.chosen],
        "fresh": {
            "layer": check.point.layer.values,
            "predicted": check.prediction._asdict(),
            "measured_s": check.measured_s,
            "difference": check.difference,
        },
        "elapsed_s": elapsed_s,
    }
