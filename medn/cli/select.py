"""`medn select`: which candidates to ship, within a budget."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.progress import CostProgress
from medn.cli.summary import RunArgument
from medn.cli.train import KindsOption, names_option, need_libraries, say_never_calm, say_warnings, split_option
from medn.core.errors import UsageError
from medn.core.units import format_bytes, format_duration, percent, percent_between

if TYPE_CHECKING:
    from pathlib import Path

    from medn.choosing.select_run import SelectOutcome
    from medn.deployed.candidate import Candidate

ModeOption = Annotated[
    str, typer.Option("--mode", help="accuracy, balanced, fast or small: what to do with what the limits leave open.")
]
MaxUsOption = Annotated[float | None, typer.Option("--max-us", help="Microseconds a row, mean over kinds.")]
MaxKbOption = Annotated[float | None, typer.Option("--max-kb", help="Kilobytes (1000 bytes) of the bundle.")]
RowsOption = Annotated[
    int, typer.Option("--rows", help="The size of queries whose time counts: 1, 100 or 10000 rows at once.")
]
WeightsOption = Annotated[
    str, typer.Option("--weights", metavar="KIND=N,..", help="How often each kind is queried; 1 by default.")
]


def select(
    run: RunArgument,
    mode: ModeOption = "accuracy",
    max_us: MaxUsOption = None,
    max_kb: MaxKbOption = None,
    max_load_ms: Annotated[float | None, typer.Option("--max-load-ms", help="Milliseconds to load all kinds.")] = None,
    rows: RowsOption = 1,
    weights: WeightsOption = "",
    kinds: KindsOption = "",
    pool: Annotated[bool, typer.Option("--pool", help="From what was trained with --pool.")] = False,
    measure_again: Annotated[
        bool, typer.Option("--measure-again", help="Time all candidates anew instead of using what is known.")
    ] = False,
    refit_all: Annotated[
        bool,
        typer.Option("--refit-all", help="Ship what was chosen fitted on every row, test rows too."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose a candidate or a small ensemble for every layer kind, and write the bundle.

    The most accurate selection within the limits, chosen on validation layers and reported on test layers. Choosing
    again for another budget trains nothing and times nothing that is known already.

    \b
    Examples:
      medn select runs/laptop
      medn select runs/laptop --mode balanced
      medn select runs/laptop --max-us 50 --max-kb 500
      medn select runs/gpus --pool
      medn select runs/laptop --refit-all
      medn select runs/laptop --rows 10000 --weights conv2d=10,linear=3
    """
    from medn.blocks.learned import learn_compositions
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import select_run
    from medn.selection.budget import Budget

    budget = Budget(mode, rows, max_us, max_kb, max_load_ms, _weights(weights))
    need_libraries()
    with CostProgress() as progress:
        outcome = select_run(
            run,
            budget,
            kinds=names_option(kinds, "--kinds"),
            split=split_option("random", pool),
            measure_again=measure_again,
            refit_all=refit_all,
            on_progress=progress.on_progress,
            on_fit=lambda about: say(f"fitting on every row: {about}"),
        )
    bundle = bundle_run(run, outcome.chosen)
    learned = learn_compositions(run, bundle)
    if as_json:
        compositions = {device: asdict(composition) for device, composition in learned.items()}
        write_json({**_outcome_json(outcome, bundle), "compositions": compositions})
    else:
        _show(outcome, rows, bundle)
    for device, composition in learned.items():
        say(f"{device}: by blocks that were timed, {composition.sentence}")
    if outcome.grown:
        say(outcome.grown)
    if outcome.kept:
        say(f"kept as chosen before: {', '.join(outcome.kept)}")
    outcome.check_all_chosen()


def _show(outcome: SelectOutcome, rows: int, bundle: Path) -> None:
    several = len({candidate.device for candidate in outcome.chosen}) > 1
    write_rows([_chosen_row(candidate, rows, several) for candidate in outcome.chosen], as_json=False)
    say(_gain_sentence(outcome))
    say_never_calm(outcome.chosen)
    say_warnings(outcome.chosen)
    if outcome.leaderboard.shipped_sentence:
        say(outcome.leaderboard.shipped_sentence)
    size = format_bytes(bundle.stat().st_size)
    say(f"chosen in {format_duration(outcome.elapsed_s)}; the bundle is {bundle} ({size})")


def _weights(text: str) -> dict[str, float]:
    """conv2d=10,linear=3"""
    weights: dict[str, float] = {}
    for entry in text.split(",") if text else []:
        kind, _, number = entry.partition("=")
        try:
            weights[kind.strip()] = float(number)
        except ValueError:
            raise UsageError(f"--weights: must look like conv2d=10,linear=3 (got {entry!r})") from None
    return weights


def _chosen_row(candidate: Candidate, rows: int, with_device: bool) -> Row:
    from medn.deployed.candidate import costs_of, scores_of

    test, costs, noise = scores_of(candidate).test, costs_of(candidate), candidate.facts.noise
    return {
        **({"device": candidate.device} if with_device else {}),
        "kind": candidate.kind,
        "chosen": candidate.regressor,
        "MAPE": percent_between(test.mape, test.mape_low, test.mape_high),
        "median": percent(test.median),
        "noise": percent(noise.mean) if noise else None,
        "us/row": f"{costs.us(rows):.3g}",
        "kB": f"{costs.bytes / 1e3:.4g}",
        "load ms": f"{costs.load_ms:.3g}",
    }


def _gain_sentence(outcome: SelectOutcome) -> str:
    """What selection gains, in one sentence."""
    board = outcome.leaderboard
    chosen = board.schemes[-1]
    gain = board.gain["accuracy"]
    over = board.gain["over"]
    points, low, high = (f"{100 * gain[name]:+.2f}" for name in ("value", "low", "high"))
    told = percent_between(chosen["accuracy"], chosen["accuracy_low"], chosen["accuracy_high"])
    accuracy = f"overall accuracy on test layers {told}"
    accuracy += "" if chosen["r2"] is None else f", mean R2 {chosen['r2']:.3f}"
    return f"{accuracy}; {points} points over {over} (95 % interval {low} to {high})"


def _outcome_json(outcome: SelectOutcome, bundle: Path) -> dict[str, Any]:
    board = outcome.leaderboard
    return {
        "chosen": [candidate.summary() for candidate in outcome.chosen],
        "budget": board.budget,
        "schemes": board.schemes,
        "gain": board.gain,
        "bundle": str(bundle),
        "bytes": bundle.stat().st_size,
        "kept": list(outcome.kept),
        "lost": [{"device": each.device, "kind": each.kind, "reasons": dict(each.reasons)} for each in outcome.lost],
        "elapsed_s": outcome.elapsed_s,
    }
