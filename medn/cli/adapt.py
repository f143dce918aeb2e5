"""`medn adapt`: a bundle for a new device from few measurements and what is known of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.completion import complete_shipped
from medn.cli.devices import SourcesArgument
from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.select import MaxKbOption, MaxUsOption
from medn.cli.sweep import MixOption, measure, parsed_sweep, seconds_option
from medn.cli.sweep_adaptive import AimOption
from medn.cli.sweep_for import BatchSizeOption, ForOption, ThreadsOption, config_text
from medn.cli.train import KindsOption, RegressorsOption, TrainProgress, names_option, need_libraries, say_warnings
from medn.cli.zero_shot import show_zero_shot
from medn.core.errors import UsageError, unknown
from medn.core.shipped import CONFIGS, found_file
from medn.core.units import format_bytes, format_duration, percent, percent_between

if TYPE_CHECKING:
    from medn.layer_generators.sweep import SweepConfig
    from medn.transfer.adapt_run import AdaptOutcome
    from medn.transfer.adapt_sweep import Aim, Wanted

DeviceOption = Annotated[
    str, typer.Option("--device", metavar="NEW", help="Measure on this device; else take what --run has measured.")
]
OverOption = Annotated[
    str, typer.Option("--over", metavar="COMMAND", help="What leads to the machine of --device, such as 'ssh orin'.")
]
ConfigOption = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="CONFIG",
        help="A sweep config whose layers are chosen from; else those of the sources' runs.",
        autocompletion=complete_shipped(CONFIGS),
    ),
]
RunOption = Annotated[Path | None, typer.Option("--run", metavar="DIR", help="The run; runs/NEW-adapted if left out.")]
PointsOption = Annotated[
    int | None, typer.Option("--points", min=0, help="Points to measure (50); 0 takes the data sheet alone.")
]
TimeOption = Annotated[
    float | None, typer.Option("--time", metavar="TIME", parser=seconds_option, help="Measure no longer than 90s, 10m.")
]
TrainTimeOption = Annotated[
    float | None,
    typer.Option("--train-time", metavar="TIME", parser=seconds_option, help="How long to learn: 90s, 10m (1m)."),
]
ByOption = Annotated[str, typer.Option("--by", help="How points are chosen: medoids, random or sobol.")]
SheetOption = Annotated[
    str, typer.Option("--sheet", metavar="NAME=N,..", help="Numbers of the new device's data sheet.")
]
USUAL_POINTS = 50
TRAIN_S = 60.0
UNFUSED = "torch"
"""Nobody knows what a device fuses that is not measured: models ask for their layers as they are."""


def adapt(
    sources: SourcesArgument,
    device: DeviceOption = "",
    over: OverOption = "",
    config: ConfigOption = "",
    models: ForOption = [],  # noqa: B006  # typer copies it
    batch_size: BatchSizeOption = "",
    threads: ThreadsOption = None,
    run: RunOption = None,
    points: PointsOption = None,
    time: TimeOption = None,
    until_error: AimOption = None,
    kinds: KindsOption = "",
    regressors: RegressorsOption = "",
    by: ByOption = "medoids",
    sheet: SheetOption = "",
    train_time: TrainTimeOption = None,
    max_us: MaxUsOption = None,
    max_kb: MaxKbOption = None,
    refit_all: Annotated[
        bool, typer.Option("--refit-all", help="Ship what was chosen fitted on every row, test rows too.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes that learn, one thread each.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed chooses and learns alike.")] = 0,
    mix_environments: MixOption = False,
    as_json: AsJson = False,
) -> None:
    """Make a bundle for a new device from few measurements, leaning on bundles of known devices.

    With --device, points are chosen, measured there, and kept in a run; without, --run names a run that holds
    measurements of the new device, such as an imported table. Families that lean on the sources are trained beside some
    that learn from the new device alone, and what ships is chosen among all of them, as `medn select` does. The same
    command again goes on where the last one stopped.

    With --points 0 nothing is measured: --sheet says what the device could do at best, and two or more known devices
    with data sheets say what comes of it. Errors are those of the known devices, each left out in turn.

    \b
    Examples:
      medn adapt runs/laptop --device onnxruntime --points 50
      medn adapt gpus.medn --device V100 --points 0 --sheet peak_gflops=14130,bandwidth_gb_s=900
      medn adapt torch.medn --device openvino --for timm:resnet18 --until-error 10%
      medn adapt runs/laptop --device onnxruntime --over "ssh orin" --time 2m
      medn adapt torch.medn mnn.medn --device onnxruntime --config cpu-layers --time 2m
      medn import v100.csv --map cde_conv2d --run runs/v100
      medn adapt gpus.medn --run runs/v100 --max-kb 500
    """
    from medn.runs.folder import DEFAULT_ROOT
    from medn.selection.budget import Budget
    from medn.transfer.adapt_run import adapt_run, state_sheet
    from medn.transfer.adapt_sweep import Aim, Wanted
    from medn.transfer.points import WAYS

    budget = Budget(max_us=max_us, max_kb=max_kb)
    need_libraries()
    if by not in WAYS:
        raise UsageError(f"--by: {unknown('way to choose points', by, WAYS)}")
    if points == 0:
        if not device or over or time or until_error:
            raise UsageError("--points 0 measures nothing: it goes with --device, a name of your own, and --sheet")
        if max_us or max_kb:
            raise UsageError("--points 0 has one bundle to offer: --max-us and --max-kb go with points")
        drawn = _drawn(UNFUSED, config, models, batch_size, threads)
        wanted = Wanted(device, tuple(names_option(kinds, "--kinds")), _sheet(sheet), drawn=drawn)
        show_zero_shot(wanted, sources, run or DEFAULT_ROOT / f"{device}-adapted", seed, as_json)
        return
    if device:
        folder = run or DEFAULT_ROOT / f"{device}-adapted"
        drawn = _drawn(device, config, models, batch_size, threads)
        wanted = Wanted(device, tuple(names_option(kinds, "--kinds")), _sheet(sheet), over, drawn)
        aim = Aim(points or (None if until_error or time else USUAL_POINTS), until_error)
        _measure(folder, sources, wanted, aim, by, seed, time, mix_environments)
    elif run is None:
        raise UsageError("say where the new device is measured: --device NEW, or --run RUN with measurements of it")
    elif over or config or models or kinds or points or time or until_error:
        raise UsageError("--over, --config, --for, --kinds, --points, --time and --until-error go with --device")
    else:
        folder = run
        state_sheet(folder, _sheet(sheet))
    with TrainProgress() as progress:
        outcome = adapt_run(
            folder,
            sources,
            seconds=train_time or TRAIN_S,
            budget=budget,
            families=names_option(regressors, "--regressors"),
            refit_all=refit_all,
            jobs=jobs,
            seed=seed,
            on_progress=progress.on_progress,
        )
    if as_json:
        write_json(_outcome_json(outcome))
    else:
        _show(outcome)
    for name, reason in outcome.unusable.items():
        say(f"{name} is not leaned on: {reason}")
    size = format_bytes(outcome.bundle.stat().st_size)
    say(f"adapted in {format_duration(outcome.elapsed_s)}; the bundle is {outcome.bundle} ({size})")
    outcome.selected.check_all_chosen()


def _drawn(device: str, config: str, models: list[str], batch_size: str, threads: int | None) -> SweepConfig | None:
    """What points are drawn from: a config, or what models need; None for what the sources were measured at."""
    if config and models:
        raise UsageError("--for makes the config itself; give it or --config, not both")
    if not models and (batch_size or threads is not None):
        raise UsageError("--batch-size and --threads go with --for; a config says these itself")
    if models:
        return parsed_sweep(config_text(models, [device], batch_size, threads, None, None))
    return parsed_sweep(found_file(CONFIGS, config)) if config else None


def _sheet(text: str) -> dict[str, float]:
    """peak_gflops=14130,bandwidth_gb_s=900"""
    from medn.core.data_sheet import sheet_mistakes

    sheet: dict[str, float] = {}
    for entry in text.split(",") if text else []:
        name, _, number = entry.partition("=")
        try:
            sheet[name.strip()] = float(number)
        except ValueError:
            raise UsageError(f"--sheet: must look like peak_gflops=14130,bandwidth_gb_s=900 (got {entry!r})") from None
    if mistakes := sheet_mistakes(sheet):
        raise UsageError(f"--sheet: {'; '.join(mistakes)}")
    return sheet


def _measure(
    folder: Path,
    sources: list[Path],
    wanted: Wanted,
    aim: Aim,
    by: str,
    seed: int,
    seconds: float | None,
    mix_environments: bool,
) -> None:
    from medn.devices.backend import backends
    from medn.runs.folder import RunFolder
    from medn.transfer.adapt_sweep import prepared_sweep

    if wanted.device not in backends:
        raise UsageError(f"--device: {unknown('device', wanted.device, backends)}")

    def tell(points: int, error: float | None) -> None:
        told = "too few layers to tell the error" if error is None else f"error {percent(error)}"
        say(f"{points} points: {told}" if aim.error is not None else f"{points} points are measured")

    config, choosing = prepared_sweep(folder, sources, wanted, aim, way=by, seed=seed, on_round=tell)
    measure(config, RunFolder(folder), seconds, mix_environments, choosing.next_points)


def _show(outcome: AdaptOutcome) -> None:
    from medn.deployed.candidate import scores_of

    several = len({candidate.device for candidate in outcome.selected.chosen}) > 1
    rows: list[Row] = []
    for candidate in outcome.selected.chosen:
        test, alone = scores_of(candidate).test, outcome.alone(candidate)
        shares = outcome.leaned_on[f"{candidate.device}/{candidate.kind}"]
        rows.append(
            {
                **({"device": candidate.device} if several else {}),
                "kind": candidate.kind,
                "rows": candidate.facts.learned_rows or None,
                "MAPE": percent_between(test.mape, test.mape_low, test.mape_high),
                "held out": percent(scores_of(candidate).validation.mape),
                "alone": percent(alone) if alone is not None else None,
                "chosen": candidate.regressor,
                "leans on": ", ".join(f"{name} {share:.2f}" for name, share in list(shares.items())[:3]) or "nothing",
            }
        )
    write_rows(rows, as_json=False)
    say("MAPE is on test layers; held out: on rows left out in turn; alone: so of the best that leans on none")
    say_warnings(outcome.selected.chosen)


def _outcome_json(outcome: AdaptOutcome) -> dict[str, Any]:
    return {
        "bundle": str(outcome.bundle),
        "bytes": outcome.bundle.stat().st_size,
        "chosen": [candidate.summary() for candidate in outcome.selected.chosen],
        "candidates": [candidate.summary() for candidate in outcome.trained.candidates],
        "alone": {f"{each.device}/{each.kind}": outcome.alone(each) for each in outcome.selected.chosen},
        "leaned_on": {place: dict(shares) for place, shares in outcome.leaned_on.items()},
        "unusable": dict(outcome.unusable),
        "elapsed_s": outcome.elapsed_s,
    }
