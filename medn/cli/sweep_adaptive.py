"""`medn sweep --until-error` and `--adaptive`: what they take, and what they tell while they measure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import say
from medn.core.errors import UsageError
from medn.core.units import format_duration, percent

if TYPE_CHECKING:
    from medn.adaptive.adaptive_sweep import AdaptiveSweep
    from medn.adaptive.progress import AdaptiveProgress
    from medn.layer_generators.sweep import SweepConfig
    from medn.runs.folder import RunFolder

SMALLEST_AIM, LARGEST_AIM = 0.001, 1.0


def aim_option(text: str) -> float:
    """An error given on the command line, as a share.

    >>> aim_option("5%"), aim_option("7.5")
    (0.05, 0.075)
    """
    try:
        aim = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        aim = float("nan")
    if not SMALLEST_AIM <= aim < LARGEST_AIM:
        raise UsageError(f"--until-error: must be a mean error in per cent, from 0.1% to 99%, as in 5% (got {text})")
    return aim


AimOption = Annotated[
    float | None,
    typer.Option(
        "--until-error",
        metavar="5%",
        parser=aim_option,
        help="Choose points while measuring, until the mean error is so small or only noise is left.",
    ),
]
AdaptiveOption = Annotated[
    bool, typer.Option("--adaptive", help="Choose points while measuring, as long as --time or --points allow.")
]


def check_has_end(config: SweepConfig, adaptive: bool, aim: float | None, seconds: float | None) -> None:
    if adaptive and config.programs.schedules:
        raise UsageError(
            "--adaptive and --until-error choose layers; with programs.schedules, all that are drawn count"
        )
    if adaptive and aim is None and seconds is None and config.budget.points is None:
        raise UsageError("--adaptive needs an end: --time, --points, a budget in the config, or --until-error")


def adaptive_sweep(config: SweepConfig, folder: RunFolder, aim: float | None, seconds: float | None) -> AdaptiveSweep:
    from medn.adaptive.adaptive_sweep import AdaptiveSweep

    began = time.monotonic()

    def tell(done: AdaptiveProgress) -> None:
        left_s = done.left_s
        if seconds is not None:
            remaining_s = max(0.0, seconds - (time.monotonic() - began))
            left_s = remaining_s if left_s is None else min(left_s, remaining_s)
        if not done.end:
            say(_round_line(done, aim, left_s))

    return AdaptiveSweep(config, folder, aim, tell)


def _round_line(done: AdaptiveProgress, aim: float | None, left_s: float | None) -> str:
    error = f"error {percent(done.error.error)}" if done.error else "too few layers to tell the error"
    wanted = f", wanted {percent(aim)}" if aim is not None else ""
    left = (
        f", about {format_duration(left_s)} left" if left_s is not None else ", the aim is out of sight" if aim else ""
    )
    return f"{done.points} points: {error}{wanted}{left}"


def say_end(choosing: AdaptiveSweep) -> None:
    """Why it ended by itself."""
    from medn.adaptive.progress import AIM, EXHAUSTED, FLOOR, POINTS

    done = choosing.last
    if done is None or not done.end:
        return
    error = f"the mean error is {percent(done.error.error)}" if done.error else "the error cannot be told"
    floor = percent(done.curve.floor)
    reasons = {
        AIM: f"the aim is reached: {error} after {done.points} points",
        FLOOR: f"only noise is left: {error}, with {floor} by noise alone; more visits would help, not points",
        POINTS: f"all {done.points} points of the budget are measured: {error}; --points allows more",
        EXHAUSTED: f"all that the config can draw is measured: {error}; wider domains allow more",
    }
    say(reasons[done.end])
