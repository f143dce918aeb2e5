"""`medn curve`: how the error falls with more measured layers, and what more measuring would bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.summary import RunArgument
from medn.core.errors import reason_of
from medn.core.units import format_duration, percent

if TYPE_CHECKING:
    from medn.adaptive.curve import Forecast
    from medn.adaptive.run_curve import KindCurve, RunCurve

CurveOption = Annotated[
    bool, typer.Option("--curve/--no-curve", help="Tell how the error falls with more layers, after measuring.")
]


def curve(run: RunArgument, as_json: AsJson = False) -> None:
    """Show how the error falls with more measured layers, and forecast it.

    Quick fits, cross-validated by layer with a quarter, half and all of the layers; what `medn train` finds is usually
    a little better. The forecast ends at what the noise of the measurements leaves. A report shows the curves.

    \b
    Examples:
      medn curve runs/quickstart
      medn curve runs/laptop --json
    """
    from medn.adaptive.run_curve import run_curve

    found = run_curve(run)
    _keep(run, found)
    if as_json:
        write_json(found.as_json())
    else:
        write_curve(found)


def curve_after(run: Path, as_json: bool) -> dict[str, Any]:
    """The curve at the end of a sweep, told unless as JSON. Whatever goes wrong with it, the sweep itself went well."""
    from medn.adaptive.run_curve import run_curve

    try:
        found = run_curve(run)
        _keep(run, found)
    except Exception as error:
        say(f"no learning curve: {reason_of(error)}")
        return {}
    if not as_json:
        write_curve(found)
    return {"curve": found.as_json()}


def _keep(run: Path, found: RunCurve) -> None:
    from medn.adaptive.run_curve import keep_curve

    try:
        keep_curve(run, found)
    except OSError as error:
        say(f"the curve is not kept, as {run} cannot be written ({error.strerror})")


def write_curve(found: RunCurve) -> None:
    """A line for each kind, and what more measuring would bring."""
    more = "twice as many" if found.span_s is None else f"{format_duration(found.span_s)} more"
    several = len({each.device for each in found.kinds}) > 1
    rows = []
    for each in found.kinds:
        name = f"{each.kind} on {each.device}" if several else each.kind
        rows.append({"kind": name, **_cells(each, found.factor, more)})
    write_rows(rows, as_json=False)
    now, then = found.forecast(1.0), found.forecast(found.factor)
    if now and then:
        ahead = "twice the layers" if found.span_s is None else f"another {format_duration(found.span_s)}"
        say(f"{ahead}: {percent(now.error)} -> {percent(then.error)} ({_bounds(then)})")
    else:
        say("too few layers were measured for a forecast of the error")


def _cells(each: KindCurve, factor: float, more: str) -> dict[str, Any]:
    if each.curve is None:
        return dict.fromkeys(("layers", "error", more, "bounds", "least")) | {"bounds": each.reason}
    now, then = each.forecast(1.0), each.forecast(factor)
    return {
        "layers": each.curve.layers,
        "error": percent(now.error if now else each.curve.errors[-1]),
        more: percent(then.error) if then else None,
        "bounds": _bounds(then) if then else "too few layers",
        "least": percent(each.curve.floor) if each.curve.floor else None,
    }


def _bounds(told: Forecast) -> str:
    return f"{100 * told.low:.1f} to {100 * told.high:.1f} %"
