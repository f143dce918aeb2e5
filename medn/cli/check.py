"""`medn check`: whether a bundle still describes this machine."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.predict import BundleArgument, DeviceOption
from medn.cli.sweep import ended_by_signals, seconds_option
from medn.core.errors import MednError, TooNoisy, UsageError
from medn.core.units import percent

if TYPE_CHECKING:
    from medn.drift.check import BundleCheck, CheckedPoint


class DoesNotFit(MednError):
    """The bundle predicts something else than is measured here."""


def check(
    bundle: BundleArgument,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="The run it was made from: its points, against what they took."),
    ] = None,
    points: Annotated[int, typer.Option("--points", min=1, help="Points to measure at most.")] = 80,
    time: Annotated[
        float, typer.Option("--time", metavar="TIME", parser=seconds_option, help="Stop after 90s, 10m.")
    ] = "2m",  # type: ignore[assignment]  # parsed as if it were given
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="The common deviation that does not fit any more, as a share.")
    ] = 0.1,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures.")] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep what was measured, as a run in this folder.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 where it stays undecided.")] = False,
    device: DeviceOption = "",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws other points.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a few layers again, and say whether the bundle still fits this machine.

    Points are drawn from what the bundle has learned and measured as a sweep measures them, until a sequential test
    knows: at most 1 check in 20 finds a change that is not there, and 1 in 20 misses that everything takes 10 % longer
    or shorter (--tolerance), or that errors are twice as large as promised.
    The exit code is 0 where it fits, and 1 where it does not.

    \b
    Examples:
      medn check runs/laptop/laptop.medn
      medn check runs/laptop/laptop.medn --run runs/laptop --html check.html
      medn check runs/laptop/laptop.medn --time 30s --tolerance 0.2 || medn sweep laptop.yaml --run runs/again
    """
    import medn
    from medn.cli.progress import SweepProgress
    from medn.drift.check import check_bundle

    if not 0.01 <= tolerance <= 10:
        raise UsageError(f"--tolerance: must be from 0.01 to 10, such as 0.1 for 10 % (got {tolerance:g})")
    if html is not None:
        _check_can_draw()
    predictor = medn.load(bundle, device or None)
    with SweepProgress(time) as progress, ended_by_signals():
        found = check_bundle(
            predictor,
            run=run,
            points=points,
            seconds=time,
            tolerance=tolerance,
            keep=keep,
            seed=seed,
            on_visit=progress.on_visit,
        )
    if as_json:
        write_json({"bundle": str(bundle), **found.as_json()})
    else:
        write_rows([_row(kind, own) for kind, own in found.kinds()], as_json=False)
    for note in found.notes:
        say(note)
    if html is not None:
        _write_page(html, bundle, found)
    _judge(found, strict)


def _row(kind: str, points: list[CheckedPoint]) -> dict[str, Any]:
    import math

    ratios = [each.log_ratio for each in points]
    return {
        "kind": kind,
        "points": len(points),
        "measured / expected": f"{math.exp(median(ratios)):.2f}",
        "usual deviation": percent(math.expm1(median(map(abs, ratios)))),
        "promised": percent(math.expm1(median(each.expected.spread for each in points))),
    }


def _judge(found: BundleCheck, strict: bool) -> None:
    from medn.core.sequential import CHANGED, UNDECIDED

    if found.verdict == CHANGED:
        raise DoesNotFit(found.sentence)
    if found.verdict == UNDECIDED and strict:
        raise TooNoisy(found.sentence)
    say(found.sentence)


def _check_can_draw() -> None:
    from medn.core.packages import need

    need("a page", "jinja2")


def _write_page(path: Path, bundle: Path, found: BundleCheck) -> None:
    from medn.report.check_page import check_page
    from medn.report.page import write_page

    write_page(path, check_page(bundle.name, found))
    say(f"the page is {path}")
