"""`medn bench`: how fast medn itself is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_record
from medn.cli.sweep import seconds_option
from medn.cli.units import latency_words, percent

if TYPE_CHECKING:
    from medn.pipeline.bench import TimedShare

bench = typer.Typer(name="bench", help="Time medn itself.", rich_markup_mode=None, no_args_is_help=False)


@bench.callback()
def _parts() -> None:
    """Time medn itself."""


@bench.command()
def measure(
    device: Annotated[str, typer.Option(help="What to measure on (medn list devices).")] = "torch",
    time: Annotated[
        float, typer.Option("--time", metavar="TIME", parser=seconds_option, help="How long to measure.")
    ] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Time the measuring: points a minute, and how much of a visit is spent in the timed layer.

    \b
    Examples:
      medn bench measure
      medn bench measure --device onnxruntime --time 60
    """
    from medn.devices.backend import backends
    from medn.pipeline.bench import bench_measure

    known = backends[device].name
    say(f"measuring on {known} for {time:g} s")
    result = bench_measure(known, time)
    if as_json:
        write_json(asdict(result))
        return
    write_record(
        {
            "device": result.device,
            "visits": result.visits,
            "visits per second": result.visits_per_second,
            "points per minute": result.points_per_minute,
            **_share("layers below 1 ms", result.short),
            **_share("layers above 1 ms", result.long),
        },
        as_json=False,
    )


def _share(name: str, found: TimedShare | None) -> Row:
    if found is None:
        return {f"{name}, timed": "none measured"}
    return {f"{name}, timed": percent(found.timed_share), f"{name}, one visit": latency_words(found.visit_s)}
