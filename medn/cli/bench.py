"""`medn bench`: how fast medn itself is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_record, write_rows
from medn.cli.sweep import seconds_option
from medn.cli.verbosity import Verb
from medn.core.units import format_bytes, format_latency, percent

if TYPE_CHECKING:
    from medn.benches.measuring import TimedShare
    from medn.benches.predicting import Line, PredictBench

bench = typer.Typer(
    name="bench",
    help="Time medn itself.",
    epilog="""\b
Examples:
  medn bench predict runs/laptop/laptop.medn    how fast predictions are, next to the native libraries
  medn bench measure --device onnxruntime       how many points a minute a sweep measures""",
    rich_markup_mode=None,
    no_args_is_help=False,
)


@bench.callback()
def _parts() -> None:
    """Time medn itself."""


@bench.command(cls=Verb)
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
    from medn.benches.measuring import bench_measure
    from medn.devices.backend import backends

    backend = backends[device].name
    say(f"measuring on {backend} for {time:g} s")
    result = bench_measure(backend, time)
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


def _share(name: str, timed: TimedShare | None) -> Row:
    if timed is None:
        return {f"{name}, timed": "none measured"}
    return {f"{name}, timed": percent(timed.timed_share), f"{name}, one visit": format_latency(timed.visit_s)}


@bench.command(cls=Verb)
def predict(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle, NAME.medn.")],
    device: Annotated[str, typer.Option(help="Which device of the bundle; needed if it has several.")] = "",
    time: Annotated[
        float, typer.Option("--time", metavar="TIME", parser=seconds_option, help="About how long to measure.")
    ] = 30.0,
    large: Annotated[bool, typer.Option("--large", help="Ask for a million rows too.")] = False,
    model: Annotated[
        list[str], typer.Option("--model", metavar="MODEL", help="A whole model too, predicted again; may be repeated.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Time the predicting: one layer, up to 100,000 rows, and models called in their own libraries beside it.

    Times are processor time on one thread. `of reference` is the time of a row as a share of that of a fixed piece of
    work, which compares between machines; `x medn` is how many times as long another library takes for as many rows,
    ready to be used, where medn also finds the features, checks the range and gives an interval.

    \b
    Examples:
      medn bench predict runs/laptop/laptop.medn
      medn bench predict runs/laptop/laptop.medn --large --time 2m --json
      medn bench predict runs/laptop/laptop.medn --model timm:resnet50
    """
    from medn.benches.predicting import bench_predict

    result = bench_predict(bundle, device or None, seconds=time, large=large, models=model)
    if as_json:
        lines = [asdict(line) | {"rows_per_second": line.rows_per_second} for line in result.lines]
        write_json(asdict(result) | {"lines": lines})
        return
    write_record(_about(result), as_json=False)
    write_rows([_line(line) for line in result.lines], as_json=False)


def _about(result: PredictBench) -> Row:
    return {
        "bundle": result.bundle,
        "device": result.device,
        "predicted by": result.chosen,
        "engine": result.engine,
        "load": format_latency(result.load_ms / 1e3),
        "load and a first answer of each kind": format_latency(result.first_ms / 1e3),
        "memory of this process": format_bytes(result.memory_bytes),
        "reference": format_latency(result.reference_us / 1e6),
    }


def _line(line: Line) -> Row:
    rate, times = line.rows_per_second, line.against_medn
    return {
        "what": line.what,
        "kind": line.kind,
        "rows": f"{line.rows:,}",
        "us a row": None if line.us_per_row is None else f"{line.us_per_row:,.2f}",
        "rows a second": None if rate is None else f"{rate:,.0f}",
        "of reference": None if line.of_reference is None else f"{line.of_reference:.4f}",
        "x medn": None if times is None else f"{times:.1f}",
        "note": line.note,
    }
