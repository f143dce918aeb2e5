"""`medn sweep`: measure what a config describes, or resume it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.completion import complete_shipped
from medn.cli.curve import CurveOption, curve_after
from medn.cli.export import write_dataset
from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.summary import summary_json, write_summary
from medn.cli.sweep_adaptive import AdaptiveOption, AimOption, adaptive_sweep, check_has_end, say_end
from medn.cli.sweep_blocks import block_cases, block_stays, say_planned_blocks
from medn.cli.sweep_for import BatchSizeOption, DeviceOption, ForOption, ThreadsOption, config_text, keep_config
from medn.core.errors import DeviceUnavailable, TooNoisy, UsageError
from medn.core.shipped import CONFIGS, found_file
from medn.core.units import format_duration, percent

if TYPE_CHECKING:
    from medn.core.values import Point, Visit
    from medn.layer_generators.sweep import SweepConfig
    from medn.measuring.sweep import NextPoints
    from medn.runs.folder import RunFolder
    from medn.runs.summary import RunSummary

STRICT_NOISE = 0.05
"""The noise at utilisation 0 that `--strict` allows."""


def seconds_option(text: str) -> float:
    """A duration given on the command line."""
    from medn.core.config import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"--time: {error}") from None


RunOption = Annotated[Path | None, typer.Option("--run", metavar="DIR", help="The run folder; runs/NAME if left out.")]
TimeOption = Annotated[
    float | None,
    typer.Option("--time", metavar="TIME", parser=seconds_option, help="Stop after 90s, 10m, 2h; goes on when rerun."),
]
MixOption = Annotated[bool, typer.Option("--mix-environments", help="Add to a run that was measured elsewhere.")]


ConfigArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="CONFIG",
        help="A sweep config: a YAML file, or one of `medn list configs`.",
        autocompletion=complete_shipped(CONFIGS),
    ),
]


def sweep(
    config: ConfigArgument = [],  # noqa: B006  # typer copies it
    models: ForOption = [],  # noqa: B006
    devices: DeviceOption = [],  # noqa: B006
    batch_size: BatchSizeOption = "",
    threads: ThreadsOption = None,
    run: RunOption = None,
    time: TimeOption = None,
    points: Annotated[int | None, typer.Option(min=1, help="Points to measure, instead of budget.points.")] = None,
    until_error: AimOption = None,
    adaptive: AdaptiveOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; measure nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 if the noise is above 5 %.")] = False,
    mix_environments: MixOption = False,
    curve: CurveOption = True,
    as_json: AsJson = False,
) -> None:
    """Measure what a config describes, or what given models need.

    Every visit is kept as soon as it is made. The same command again goes on where the last one stopped.
    --for makes a config for models and keeps it in the run, as sweep.yaml: their own layers first, as the device runs
    them, then layers like them with other sizes. --dry-run prints it. Some blocks of the models are timed beside, to
    learn how their layers compose here; the models themselves are not.
    --until-error and --adaptive choose the points while measuring, where they tell most about all others.

    \b
    Examples:
      medn sweep quickstart --dry-run
      medn sweep quickstart --time 60
      medn sweep laptop.yaml --run runs/evening --strict
      medn sweep --for timm:resnet18 nets/own.onnx --device onnxruntime --batch-size 1,4 --time 5m
      medn sweep cpu-layers --until-error 8% --time 30m
      medn sweep --for timm:resnet18 --adaptive --time 5m
    """
    chosen, made = chosen_config(config, models, devices, batch_size, threads, points, time)
    cases = block_cases(chosen, [*models, *config], batch_size, threads) if models else ()
    seconds = chosen.budget.time_s if time is None else time
    adaptive = adaptive or until_error is not None
    check_has_end(chosen, adaptive, until_error, seconds)
    if dry_run:
        if made is not None and not as_json:
            typer.echo(made, nl=False)
        _write_plan(chosen, seconds, as_json, table=made is None)
        say_planned_blocks(cases, seconds)
        return
    from medn.runs.folder import DEFAULT_ROOT, RunFolder

    folder = RunFolder(run or DEFAULT_ROOT / chosen.name)
    if made is not None:
        kept = keep_config(folder, made)
        say(f"the config is {kept}; to use it again, edited or not: medn sweep {kept} --run {folder.path}")
    choosing = adaptive_sweep(chosen, folder, until_error, seconds) if adaptive else None
    next_points = choosing.next_points if choosing else None
    say_planned_blocks(cases, seconds)
    with block_stays(folder, cases, seconds) as stays:
        done = measure(chosen, folder, seconds, mix_environments, next_points, stays.after_visit)
        stays.finish()
    if choosing:
        done["ended_by"] = choosing.last.end if choosing.last else ""
        if done["finished"]:
            say_end(choosing)
    with folder.store(must_exist=True) as store:
        from medn.runs.summary import summarise

        summary = summarise(store)
        files = [str(path) for path in write_dataset(store, folder.dataset)]
        told = summary_json(summary, store)
        if not as_json:
            write_summary(summary, store)
    curves = curve_after(folder.path, as_json) if curve and summary.visits else {}
    if as_json:
        write_json({"run": str(folder.path), **done, "dataset": files, "summary": told, **curves})
    say(f"The run lies in {folder.path}, its tables in {folder.dataset}. See it again: medn summary {folder.path}")
    _judge(summary, strict)
    if done["given_up"]:
        reasons = "; ".join(done["given_up"].values())
        raise DeviceUnavailable(f"not all was measured: {reasons}. The same command goes on from there")


def chosen_config(
    config: Sequence[str],
    models: Sequence[str],
    devices: Sequence[str],
    batch_size: str,
    threads: int | None,
    points: int | None,
    seconds: float | None,
) -> tuple[SweepConfig, str | None]:
    """The config that is named, or the one that is made for models, and then its YAML too."""
    if config and not models and ":" in config[0] and not Path(config[0]).exists():
        raise UsageError(f"{config[0]} is no config; to measure what a model needs: medn sweep --for {config[0]}")
    made = _made_config(config, models, devices, batch_size, threads, points, seconds)
    return (_load(found_file(CONFIGS, config[0]), points) if made is None else parsed_sweep(made)), made


def _made_config(
    config: Sequence[str],
    models: Sequence[str],
    devices: Sequence[str],
    batch_size: str,
    threads: int | None,
    points: int | None,
    seconds: float | None,
) -> str | None:
    """The config that is made for models, as YAML; None where one is given."""
    if not models:
        if devices or batch_size or threads is not None:
            raise UsageError("--device, --batch-size and --threads go with --for; a config says these itself")
        if len(config) != 1:
            got = f" (got {len(config)} configs)" if config else ""
            raise UsageError(f"say what to measure: one CONFIG, or --for and models{got}")
        return None
    from medn.model.model_sources import is_source

    for name in config:  # a shell cannot tell further models from configs
        if not is_source(name) or Path(name).suffix in (".yaml", ".yml"):
            raise UsageError(f"--for makes the config itself; give it or {name}, not both")
    return config_text([*models, *config], devices, batch_size, threads, points, seconds)


def parsed_sweep(written: str | Path) -> SweepConfig:
    from medn.devices.backend import backends
    from medn.devices.probe import probes
    from medn.layer_generators.sweep import parse_sweep

    return parse_sweep(written, list(backends), list(probes))


def _load(path: Path, points: int | None) -> SweepConfig:
    config = parsed_sweep(path)
    if points is None:
        return config
    if points < len(config.devices):
        raise UsageError(f"--points: must be at least 1 per device, {len(config.devices)} (got {points})")
    return config.model_copy(update={"budget": config.budget.model_copy(update={"points": points})})


def _write_plan(config: SweepConfig, seconds: float | None, as_json: bool, table: bool) -> None:
    from medn.layer_generators.plan import plan_points
    from medn.measuring.sweep_time import expected_seconds

    plan = plan_points(config)
    planned = plan.summary()
    visits = len(plan.points) * config.measure.visits
    expected_s = expected_seconds(plan.points, config.measure)
    if as_json:
        write_json({**planned, "visits": visits, "expected_s": expected_s, "time_s": seconds})
        return
    rows = [
        {"kind": kind, "layers": part["layers"], **{f"points on {name}": n for name, n in part["points"].items()}}
        for kind, part in planned["kinds"].items()
    ]
    if table:
        write_rows(rows, as_json=False)
    limit = "" if seconds is None or seconds > expected_s else f", of which one call makes {format_duration(seconds)}"
    say(f"{len(plan.points)} points, {visits} visits, about {format_duration(expected_s)}{limit}; nothing was measured")


def measure(
    config: SweepConfig,
    folder: RunFolder,
    seconds: float | None,
    mix_environments: bool,
    next_points: NextPoints | None = None,
    after_visit: Callable[[int, int], None] = lambda done, planned: None,
) -> dict[str, Any]:
    """Run the sweep, telling how far it is and how it ended; `next_points` chooses points instead of the config.

    `after_visit` is told how many of the planned visits are made, and may measure something else then.
    """
    from medn.cli.progress import SweepProgress
    from medn.measuring.sweep import run_sweep

    with SweepProgress(seconds, grows=next_points is not None) as progress, ended_by_signals():

        def on_visit(pass_number: int, visits: int, planned: int, point: Point, visit: Visit) -> None:
            progress.on_visit(pass_number, visits, planned, point, visit)
            after_visit(visits, planned)

        try:
            outcome = run_sweep(
                config,
                folder,
                seconds=seconds,
                mix_environments=mix_environments,
                on_visit=on_visit,
                on_link=lambda machine, sentence: say(f"{machine}: {sentence.removeprefix(f'{machine}: ')}"),
                next_points=next_points,
            )
        except KeyboardInterrupt:
            say(
                f"{progress.visits} visits were made and are kept in {folder.path}; the same command goes on from there"
            )
            raise
    for name, reason in outcome.probe_reasons.items():
        say(f"the probe {name} gave no number ({reason}); its cells are empty there")
    for told in outcome.apart.values():
        say(told)
    if not outcome.finished and not outcome.given_up:
        say(f"time is up after {outcome.visits} visits; the same command goes on from there")
    elif outcome.visits == 0 and not next_points:
        say(f"{folder.path} is finished already; nothing was left to do")
    return {
        "visits": outcome.visits,
        "finished": outcome.finished,
        "elapsed_s": outcome.elapsed_s,
        "timed_s": outcome.timed_s,
        "probe_reasons": dict(outcome.probe_reasons),
        "given_up": dict(outcome.given_up),
        "apart": dict(outcome.apart),
    }


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A request to terminate ends the work as an interrupt at the keyboard does: in order."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _judge(summary: RunSummary, strict: bool) -> None:
    summary.check_measured()
    if not strict:
        return
    noise = summary.idle_noise
    if noise is None:
        raise TooNoisy("the noise is not known: no point at utilisation 0 has two visits yet")
    if noise.mean > STRICT_NOISE:
        raise TooNoisy(
            f"the noise at utilisation 0 is {percent(noise.mean)} (mean of {noise.points} points, half of which repeat "
            f"within {percent(noise.median)}); --strict allows {percent(STRICT_NOISE)}"
        )
