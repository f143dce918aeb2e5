"""`medn quickstart`: the whole flow on this machine, from nothing to predictions."""

from __future__ import annotations

import statistics
import time as clock
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.sweep import RunOption, measure, seconds_option
from medn.cli.train import TrainProgress, need_libraries, say_warnings
from medn.core.errors import UsageError
from medn.core.units import format_duration, format_latency, percent, percent_between

if TYPE_CHECKING:
    from medn.choosing.select_run import SelectOutcome
    from medn.deployed.candidate import Candidate
    from medn.quickstart.checks import LayerCheck, NetworkCheck

TimeOption = Annotated[
    float, typer.Option("--time", metavar="TIME", parser=seconds_option, help="How long it may take: 120, 2m, 10m.")
]

COMPOSITION_FILE = "composition.json"

EXPLAINED = (
    "Errors are on layers that no regressor has seen, the mean with its 95 % interval. The noise is how far two halves "
    "of the measurements of the same layer disagree: an error near it cannot be told from none. Networks are predicted "
    "from their layers, which compose as in four other networks that were timed beside them."
)


def quickstart(time: TimeOption = 120.0, run: RunOption = None, as_json: AsJson = False) -> None:
    """Measure layers on this CPU, train, choose, and predict: everything once, in two minutes.

    Measured are the layers of ResNet-18 and of a small transformer, and layers like them, for as long as the time
    allows. In the end both networks are predicted from their layers, and then timed.
    The same command again goes on: it measures more, trains again and gets better.

    \b
    Examples:
      medn quickstart
      medn quickstart --time 10m --run runs/laptop
    """
    from medn.quickstart.checks import check_layer, check_networks
    from medn.quickstart.growing_plan import growing_plan, quick_config
    from medn.quickstart.schedule import SHORTEST_S, SWEEP_SHARE, TRAIN_SHARE
    from medn.runs.folder import DEFAULT_ROOT, RunFolder

    need_libraries()
    if time < SHORTEST_S:
        raise UsageError(f"--time: must be at least {SHORTEST_S:g} seconds (got {time:g})")
    began = clock.monotonic()
    config = quick_config()
    folder = RunFolder(run or DEFAULT_ROOT / config.name)
    sweep_s = SWEEP_SHARE * time
    say(f"1 of 4: measuring layers on this CPU with {config.devices[0].name}, {format_duration(sweep_s)}")
    measure(config, folder, sweep_s, mix_environments=False, next_points=growing_plan(config, sweep_s))
    say(f"2 of 4: training regressors on what was measured, {format_duration(TRAIN_SHARE * time)}")
    _train(folder.path, TRAIN_SHARE * time)
    say("3 of 4: choosing the most accurate ones, and writing them into a bundle")
    outcome, bundle = _choose(folder.path)
    say("4 of 4: predicting a layer that was not in the sweep and two whole networks, and timing them")
    from medn.predictor.predictor import load

    predictor = load(bundle)
    layer = check_layer(folder, config, predictor)
    networks, composition = check_networks(predictor)
    composition.save(folder.path / COMPOSITION_FILE)
    if not as_json:
        write_rows([_kind_row(candidate) for candidate in outcome.chosen], as_json=False)
        write_rows([_network_row(network) for network in networks], as_json=False)
        say(EXPLAINED)
        say(outcome.leaderboard.shipped_sentence)
        say_warnings(outcome.chosen)
        say(_compared(layer))
        say(_errors(outcome.chosen))
    report = _write_report(folder.path)
    elapsed_s = clock.monotonic() - began
    if as_json:
        write_json(_as_json(outcome, layer, networks, bundle, report, elapsed_s))
        return
    say(f"Done in {format_duration(elapsed_s)}. The report is {report.resolve()}")
    say(_next(folder.path, bundle))


def _train(run: Path, seconds: float) -> None:
    from medn.core.environment import usable_cores
    from medn.quickstart.schedule import families
    from medn.training.train_run import train_run

    with TrainProgress() as progress:
        train_run(
            run, seconds=seconds, families=families(seconds), jobs=usable_cores(), on_progress=progress.on_progress
        )


def _choose(run: Path) -> tuple[SelectOutcome, Path]:
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import select_run
    from medn.selection.budget import Budget

    # Networks are predicted from the layers that were measured for them, so what ships learns from all of these.
    with warnings.catch_warnings(action="ignore"):  # of libraries, which a newcomer can do nothing about
        outcome = select_run(run, Budget(), refit_all=True)
    for lost in outcome.lost:
        say(f"nothing could be chosen for {lost.sentence}")
    return outcome, bundle_run(run, outcome.chosen)


def _write_report(run: Path) -> Path:
    from medn.report.content import gather
    from medn.report.page import report_page, write_page

    return write_page(run / "report.html", report_page(gather(run)))


def _kind_row(candidate: Candidate) -> Row:
    """A row that needs no explanation."""
    from medn.deployed.candidate import scores_of

    test, noise = scores_of(candidate).test, candidate.facts.noise
    return {
        "layer kind": candidate.kind,
        "points": sum(candidate.facts.split_sizes.values()),
        "chosen": candidate.regressor,
        "mean error": percent_between(test.mape, test.mape_low, test.mape_high),
        "noise": percent(noise.mean) if noise else None,
    }


def _network_row(network: NetworkCheck) -> Row:
    predicted = network.prediction
    return {
        "network": network.name,
        "predicted": format_latency(predicted.latency_s),
        "interval": f"{format_latency(predicted.low_s)} to {format_latency(predicted.high_s)}",
        "measured": format_latency(network.measured_s),
        "off by": f"{100 * network.difference:+.1f} %",
        "time in range": percent(network.in_range),
    }


def _errors(chosen: Sequence[Candidate]) -> str:
    """The error beside the noise, over all kinds."""
    from medn.deployed.candidate import scores_of

    error = statistics.fmean(scores_of(each).test.mape for each in chosen)
    noises = [each.facts.noise.mean for each in chosen if each.facts.noise]
    text = f"Over the kinds, the mean error on unseen layers is {percent(error)}"
    return f"{text}; the noise is {percent(statistics.fmean(noises))}." if noises else f"{text}."


def _compared(check: LayerCheck) -> str:
    prediction, values = check.prediction, check.point.layer.values
    return (
        f"A fresh layer, conv2d {values['in_channels']} -> {values['out_channels']}, 3x3 at {values['in_h']}x"
        f"{values['in_w']}: predicted {format_latency(prediction.latency_s)} ({format_latency(prediction.low_s)} to "
        f"{format_latency(prediction.high_s)}), measured {format_latency(check.measured_s)}: "
        f"{abs(check.difference):.0%} {'above' if check.difference > 0 else 'below'} the measurement, which lies "
        f"{'inside' if check.is_inside else 'outside'} the interval."
    )


def _next(run: Path, bundle: Path) -> str:
    network = "python:medn.quickstart.networks:resnet18"
    return f"""Next:
  medn sweep --for my_model.onnx --time 5m    # measure what a network of yours needs; or python:my_module:make
  medn predict {bundle} {network} --composition {run / COMPOSITION_FILE}
  medn quickstart --time 10m                  # goes on from here: more layers, smaller errors"""


def _as_json(
    outcome: SelectOutcome,
    layer: LayerCheck,
    networks: Sequence[NetworkCheck],
    bundle: Path,
    report: Path,
    elapsed_s: float,
) -> dict[str, Any]:
    return {
        "bundle": str(bundle),
        "report": str(report),
        "chosen": [candidate.summary() for candidate in outcome.chosen],
        "fresh": {
            "layer": layer.point.layer.values,
            "predicted": layer.prediction._asdict(),
            "measured_s": layer.measured_s,
            "difference": layer.difference,
        },
        "networks": [
            {
                "network": network.name,
                "predicted_s": network.prediction.latency_s,
                "low_s": network.prediction.low_s,
                "high_s": network.prediction.high_s,
                "measured_s": network.measured_s,
                "difference": network.difference,
                "in_range": network.in_range,
            }
            for network in networks
        ],
        "elapsed_s": elapsed_s,
    }
