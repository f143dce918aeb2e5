"""`medn sweep`: measure what a config describes, or resume it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.export import write_dataset
from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.summary import summary_json, write_summary
from medn.cli.sweep_for import BatchSizeOption, DeviceOption, ForOption, ThreadsOption, config_text, keep_config
from medn.core.errors import NothingMeasured, TooNoisy, UsageError
from medn.core.units import format_duration, percent

if TYPE_CHECKING:
    from medn.layer_generators.sweep import SweepConfig
    from medn.runs.folder import RunFolder
    from medn.runs.summary import RunSummary

STRICT_NOISE = 0.05
"""The median difference between two halves of the visits, at utilisation 0, that `--strict` allows."""


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


ConfigArgument = Annotated[list[str], typer.Argument(metavar="CONFIG", help="A sweep config (YAML).")]


def sweep(
    config: ConfigArgument = [],  # noqa: B006  # typer copies it
    models: ForOption = [],  # noqa: B006
    devices: DeviceOption = [],  # noqa: B006
    batch_size: BatchSizeOption = "",
    threads: ThreadsOption = None,
    run: RunOption = None,
    time: TimeOption = None,
    points: Annotated[int | None, typer.Option(min=1, help="Points to measure, instead of budget.points.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; measure nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 if the noise floor is above 5 %.")] = False,
    mix_environments: MixOption = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a config describes, or what given models need.

    Every visit is kept as soon as it is made. The same command again goes on where the last one stopped.
    --for makes a config for models and keeps it in the run, as sweep.yaml: their own layers first, as the device runs
    them, then layers like them with other sizes. --dry-run prints it.

    \b
    Examples:
      medn sweep experiments/configs/quickstart.yaml --dry-run
      medn sweep experiments/configs/quickstart.yaml --time 60
      medn sweep laptop.yaml --run runs/evening --strict
      medn sweep --for timm:resnet18 nets/own.onnx --device onnxruntime --batch-size 1,4 --time 5m
    """
    made = _made_config(config, models, devices, batch_size, threads, points, time)
    chosen = _load(Path(config[0]), points) if made is None else _parse(made)
    seconds = chosen.budget.time_s if time is None else time
    if dry_run:
        if made is not None and not as_json:
            typer.echo(made, nl=False)
        _write_plan(chosen, seconds, as_json, table=made is None)
        return
    from medn.runs.folder import DEFAULT_ROOT, RunFolder

    folder = RunFolder(run or DEFAULT_ROOT / chosen.name)
    if made is not None:
        kept = keep_config(folder, made)
        say(f"the config is {kept}; to use it again, edited or not: medn sweep {kept} --run {folder.path}")
    done = measure(chosen, folder, seconds, mix_environments)
    with folder.store(must_exist=True) as store:
        from medn.runs.summary import summarise

        summary = summarise(store)
        files = [str(path) for path in write_dataset(store, folder.dataset)]
        if as_json:
            write_json({"run": str(folder.path), **done, "dataset": files, "summary": summary_json(summary, store)})
        else:
            write_summary(summary, store)
    say(f"The run lies in {folder.path}, its tables in {folder.dataset}. See it again: medn summary {folder.path}")
    _judge(summary, strict)


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
        if not is_source(name):
            raise UsageError(f"--for makes the config itself; give it or {name}, not both")
    return config_text([*models, *config], devices, batch_size, threads, points, seconds)


def _parse(written: str | Path) -> SweepConfig:
    from medn.devices.backend import backends
    from medn.devices.probe import probes
    from medn.layer_generators.sweep import parse_sweep

    return parse_sweep(written, list(backends), list(probes))


def _load(path: Path, points: int | None) -> SweepConfig:
    config = _parse(path)
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


def measure(config: SweepConfig, folder: RunFolder, seconds: float | None, mix_environments: bool) -> dict[str, Any]:
    """Run the sweep, telling how far it is and how it ended."""
    from medn.cli.progress import SweepProgress
    from medn.measuring.sweep import run_sweep

    with SweepProgress(seconds) as progress, _ended_by_signals():
        try:
            outcome = run_sweep(
                config, folder, seconds=seconds, mix_environments=mix_environments, on_visit=progress.on_visit
            )
        except KeyboardInterrupt:
            say(
                f"{progress.visits} visits were made and are kept in {folder.path}; the same command goes on from there"
            )
            raise
    for name, reason in outcome.probe_reasons.items():
        say(f"the probe {name} gave no number ({reason}); its cells are empty there")
    if not outcome.finished:
        say(f"time is up after {outcome.visits} visits; the same command goes on from there")
    elif outcome.visits == 0:
        say(f"{folder.path} is finished already; nothing was left to do")
    return {
        "visits": outcome.visits,
        "finished": outcome.finished,
        "elapsed_s": outcome.elapsed_s,
        "timed_s": outcome.timed_s,
        "probe_reasons": dict(outcome.probe_reasons),
    }


@contextmanager
def _ended_by_signals() -> Iterator[None]:
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
    if not summary.visits:
        reason, count = summary.failures[0]
        raise NothingMeasured(f"none of {summary.points} points could be measured; {count} of them: {reason}")
    if not strict:
        return
    noise = summary.idle_noise
    if noise is None:
        raise TooNoisy("the noise floor is not known: no point at utilisation 0 has two visits yet")
    if noise.median > STRICT_NOISE:
        raise TooNoisy(
            f"the noise floor at utilisation 0 is {percent(noise.median)} (median of {noise.points} points, "
            f"mean {percent(noise.mean)}); --strict allows {percent(STRICT_NOISE)}"
        )
