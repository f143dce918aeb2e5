"""`medn train`: regressors for everything a run has measured."""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.completion import complete_several_kinds, complete_several_regressors
from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.progress import LINE_EVERY_S
from medn.cli.summary import RunArgument
from medn.cli.sweep import seconds_option
from medn.cli.verbosity import LOGGER, is_quiet
from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.core.units import format_duration, percent

if TYPE_CHECKING:
    from rich.live import Live

    from medn.core.splits import Split
    from medn.deployed.candidate import Candidate
    from medn.training.train_run import Plan, TrainOutcome

UNUSED_SHARE = 0.1
"""Of the time, from which on it is told that so much of it was not needed."""

TimeOption = Annotated[
    float | None,
    typer.Option(
        "--time", metavar="TIME", parser=seconds_option, help="How long: 90s, 10m, 2h (5m); goes on when rerun."
    ),
]
KindsOption = Annotated[
    str,
    typer.Option(
        "--kinds",
        metavar="A,B",
        help="Layer kinds; all that are measured.",
        autocompletion=complete_several_kinds,
    ),
]
RegressorsOption = Annotated[
    str,
    typer.Option(
        "--regressors",
        metavar="A,B",
        help="Families; all there are.",
        autocompletion=complete_several_regressors,
    ),
]
PoolOption = Annotated[
    bool, typer.Option("--pool", help="One regressor per kind for all devices, the device among its inputs.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FAMILY.NAME=VALUE", help="Fix a setting instead of searching it; may be repeated."),
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="These options and `settings` in a YAML file.")]
SplitOption = Annotated[
    str, typer.Option("--split", help="random, range:COLUMN:VALUE (test above it) or device:NAME (test on it).")
]


OnOption = Annotated[
    str, typer.Option("--on", metavar="PLACE", help="Where to fit: local, dask://HOST:PORT or slurm (--jobs at once).")
]
OnOptionOption = Annotated[
    list[str],
    typer.Option(
        "--on-option",
        metavar="NAME=VALUE",
        help="With --on slurm: queue, walltime, memory and so on; may be repeated.",
    ),
]


def train(
    run: RunArgument,
    time: TimeOption = None,
    kinds: KindsOption = "",
    regressors: RegressorsOption = "",
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes, one thread each (1).")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The same seed splits and learns alike (0).")
    ] = None,
    split: SplitOption = "random",
    pool: PoolOption = False,
    settings: SetOption = None,
    config: ConfigOption = None,
    without_unstable: Annotated[
        bool, typer.Option("--without-unstable", help="Leave out points that do not repeat well.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try again what failed before, without more time.")
    ] = False,
    on: OnOption = "local",
    on_option: OnOptionOption = [],  # noqa: B006  # typer copies it
    as_json: AsJson = False,
) -> None:
    """Train regressors for every layer kind of a run.

    Every family shows once what it can do, and those that can still win get the time. The same command again keeps what
    is finished and does the rest; with more --time it tunes on.
    The best one is chosen on validation layers and reported on test layers.

    \b
    Examples:
      medn train runs/quickstart --time 60
      medn train runs/laptop --time 30m --jobs 4
      medn train runs/laptop --kinds conv2d,linear --regressors lightgbm,roofline
      medn train runs/laptop --set medn.memory=off --set lightgbm.max_bin=255
      medn train runs/laptop --split range:flops:1e9
      medn train runs/gpus --pool
      medn train runs/laptop --on dask://head:8786 --time 30m
      medn train runs/laptop --on slurm --jobs 16 --on-option queue=cpu --on-option walltime=01:00:00
    """
    from medn.training.candidate_store import candidates_root
    from medn.training.config import TrainConfig, both, parse_settings, read_train_config
    from medn.training.train_run import train_run

    file = read_train_config(config) if config else TrainConfig()
    fixed = both(file.settings, parse_settings(settings or []))
    chosen, processes = split_option(split, pool), jobs or file.jobs
    need_libraries()
    with TrainProgress() as progress:
        outcome = train_run(
            run,
            seconds=time or file.time_s,
            kinds=names_option(kinds, "--kinds") or file.kinds,
            families=names_option(regressors, "--regressors") or file.regressors,
            jobs=processes,
            seed=file.seed if seed is None else seed,
            split=chosen,
            settings=fixed,
            without_unstable=without_unstable,
            retry_failed=retry_failed,
            on_progress=progress.on_progress,
            on_plan=progress.on_plan,
            on_wait=progress.on_wait,
            on=on,
            on_options=_place_options(on_option),
        )
    if as_json:
        write_json(_outcome_json(outcome))
    else:
        several = len({candidate.device for candidate in outcome.candidates}) > 1
        write_rows([_best_row(candidate, several) for candidate in outcome.best()], as_json=False)
        _write_failures(outcome)
        say_never_calm(outcome.best())
        say_warnings(outcome.best())
    say(
        f"{len(outcome.candidates)} candidates, {outcome.trained} of them trained now in "
        f"{format_duration(outcome.elapsed_s)}{_loading_time(outcome)}, in {candidates_root(run, chosen)}"
    )
    if outcome.trained and outcome.unused_s >= UNUSED_SHARE * (time or file.time_s):
        say(f"no family gained any more: {format_duration(outcome.unused_s)} of the time were not needed")
    if outcome.retries:
        say(f"{outcome.retries} fits were begun again, because their workers were lost")
    if not outcome.best():
        raise MednError("no regressor could be trained; the reasons are above")


def names_option(text: str, option: str) -> list[str]:
    """A comma-separated list of names."""
    names = [name.strip() for name in text.split(",")] if text else []
    if not all(names):
        raise UsageError(f"{option}: must be names with commas between them, as in a,b (got {text!r})")
    return list(dict.fromkeys(names))


def _place_options(arguments: Sequence[str]) -> dict[str, Any]:
    from medn.estimator.table_files import read_value

    pairs = [argument.partition("=") for argument in arguments]
    if wrong := [argument for argument, pair in zip(arguments, pairs, strict=True) if not (pair[0] and pair[1])]:
        raise UsageError(f"--on-option {wrong[0]!r}: must be written as NAME=VALUE")
    return {name.strip(): read_value(value.strip()) for name, _, value in pairs}


def split_option(text: str, pool: bool) -> Split:
    """How to split; what is pooled is split at random."""
    from medn.core.splits import Split

    split = Split.parse(text)
    if pool and split.form not in ("random", "pooled"):
        raise UsageError(f"--pool: is split at random, so --split {text} cannot go with it")
    return Split("pooled") if pool else split


def need_libraries() -> None:
    """Refuse to start what would fail halfway for want of a library."""
    need("training", "optuna", "safetensors")


def _loading_time(outcome: TrainOutcome) -> str:
    seconds = outcome.loading_s / outcome.processes
    return f" ({format_duration(seconds)} of it to load libraries)" if seconds >= 1 else ""


def say_never_calm(candidates: Sequence[Candidate]) -> None:
    """The test errors of rows that something slowed at every visit, apart from those of the others."""
    for candidate in candidates:
        if candidate.scores and (told_apart := candidate.scores.told_apart(f"{candidate.kind} on {candidate.device}")):
            say(told_apart)


def say_warnings(candidates: Sequence[Candidate]) -> None:
    for warning in [candidate.warning for candidate in candidates if candidate.warning]:
        LOGGER.warning("%s", warning)


def _best_row(candidate: Candidate, with_device: bool) -> Row:
    """A candidate's errors, beside the noise of the measurements."""
    from medn.deployed.candidate import scores_of

    test, noise = scores_of(candidate).test, candidate.facts.noise
    return {
        **({"device": candidate.device} if with_device else {}),
        "kind": candidate.kind,
        "best": candidate.regressor,
        "MAPE": percent(test.mape),
        "median": percent(test.median),
        "within 10 %": percent(test.within_10),
        "R2": None if test.r2 is None else f"{test.r2:.3f}",
        "noise": percent(noise.mean) if noise else None,
        "us/row": f"{candidate.row_us:.0f}",
        "bytes": f"{candidate.size_bytes:,}",
    }


def _write_failures(outcome: TrainOutcome) -> None:
    from medn.training.fitters import NO_TIME

    rows: list[Row] = [
        {"device": failure.device, "kind": failure.kind, "regressor": None, "not trained because": failure.reason}
        for failure in outcome.refused
    ]
    rows += [
        {
            "device": failure.device,
            "kind": failure.kind,
            "regressor": failure.regressor,
            "not trained because": failure.reason,
        }
        for failure in outcome.candidates
        if not failure.is_good and not failure.reason.startswith(NO_TIME)
    ]
    write_rows(rows, as_json=False)
    late = sorted({each.regressor for each in outcome.candidates if each.reason.startswith(NO_TIME)})
    if late:
        say(f"no time was left to try {', '.join(late)}: medn train RUN again does that")


def _outcome_json(outcome: TrainOutcome) -> dict[str, Any]:
    return {
        "best": [f"{candidate.device}/{candidate.kind}/{candidate.regressor}" for candidate in outcome.best()],
        "candidates": [candidate.summary() for candidate in outcome.candidates],
        "refused": [
            {"device": candidate.device, "kind": candidate.kind, "reason": candidate.reason}
            for candidate in outcome.refused
        ],
        "trained": outcome.trained,
        "elapsed_s": outcome.elapsed_s,
    }


class TrainProgress:
    """The best of each kind so far: a table that changes on a terminal, a line for each job anywhere else."""

    def __init__(self) -> None:
        self._candidates: list[Candidate] = []
        self._live: Live | None = None
        self._done = self._waiting = ""
        self._next_line = clock.monotonic() + LINE_EVERY_S

    def __enter__(self) -> TrainProgress:
        if sys.stderr.isatty() and not is_quiet():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def on_plan(self, plan: Plan) -> None:
        """Say beforehand where the given time is too short."""
        if plan.least_s <= plan.asked_s:
            return
        least, asked = format_duration(plan.least_s), format_duration(plan.asked_s)
        what = f"regressors: {plan.families}, layer kinds: {plan.kinds}"
        say(f"{what}; with a second for each fit, beside loading libraries, up to {least} (asked for: {asked})")

    def on_wait(self, seconds_left: float, fitted: Sequence[str]) -> None:
        self._waiting = f"about {format_duration(seconds_left)} left; {'; '.join(fitted)}"
        if self._live:
            self._live.update(self._table(), refresh=True)
        elif clock.monotonic() >= self._next_line:
            self._next_line = clock.monotonic() + LINE_EVERY_S
            say(self._waiting)

    def on_progress(self, done: int, planned: int, candidates: Sequence[Candidate]) -> None:
        self._candidates += candidates
        self._done = f"{done} of {planned}"
        if self._live:
            self._live.update(self._table(), refresh=True)
            return
        for candidate in candidates:
            result = percent(candidate.scores.validation.mape) if candidate.scores else candidate.reason
            say(f"{done} of {planned}: {candidate.kind} on {candidate.device}, {candidate.regressor}: {result}")

    def _table(self) -> Any:
        from rich.table import Table

        from medn.training.train_run import best_candidates, validation_error

        table = Table("device", "kind", "best so far", "validation MAPE", "noise", title=self._done)
        table.caption = self._waiting
        for candidate in best_candidates(self._candidates):
            noise, error = candidate.facts.noise, percent(validation_error(candidate))
            floor = percent(noise.mean) if noise else "-"
            table.add_row(candidate.device, candidate.kind, candidate.regressor, error, floor)
        return table
