"""`medn table`: latency along a parameter, which pruning walks down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.predict import BundleArgument, DeviceOption, KindArgument, ValuesArgument, parse_values
from medn.core.errors import UsageError
from medn.core.units import format_latency

if TYPE_CHECKING:
    from medn.estimator.staircase import Staircase


def table(
    bundle: BundleArgument,
    kind: KindArgument,
    values: ValuesArgument = [],  # noqa: B006  # typer copies it
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the data as CSV.")] = False,
    device: DeviceOption = "",
    as_json: AsJson = False,
) -> None:
    """Show how latency climbs with a parameter, and the step that is worth rounding it to.

    A parameter varies as FROM:TO:STEP (TO is left out, as in Python's range) or as a list A,B,C. A value is worthwhile
    if no larger one is as fast.

    \b
    Examples:
      medn table runs/laptop/laptop.medn conv2d out_channels=8:513:8 in_channels=64 kernel_size=3 in_size=56
      medn table runs/laptop/laptop.medn linear in_features=64,128,256 out_features=512 --csv
    """
    import medn
    from medn.core.table_content import STANDARD
    from medn.estimator.table_files import write_table

    varied = {name: found for name, text in _split(values) if (found := _several(name, text)) is not None}
    fixed = parse_values([argument for argument in values if argument.partition("=")[0] not in varied])
    found = medn.load(bundle, device or None).table(kind, fixed, **varied)
    if as_json:
        write_json({"kind": kind, "fixed": fixed, "round_to": found.round_to, "rows": found.rows()})
    elif as_csv:
        write_table(found.rows(), STANDARD)
    else:
        write_rows(_rows(found), as_json=False)
    if found.round_to is not None:
        say(f"round {next(iter(varied))} to multiples of {found.round_to}")


def _split(values: list[str]) -> list[tuple[str, str]]:
    return [(argument.partition("=")[0], argument.partition("=")[2]) for argument in values]


def _several(name: str, text: str) -> Any:
    """The values of FROM:TO:STEP or A,B,C; None for a single value."""
    from medn.estimator.table_files import read_value

    if "," in text:
        return [read_value(part) for part in text.split(",")]
    if ":" not in text:
        return None
    try:
        found = range(*(int(part) for part in text.split(":")))
    except (ValueError, TypeError):
        raise UsageError(f"{name}={text}: must be FROM:TO or FROM:TO:STEP in whole numbers") from None
    if not found:
        raise UsageError(f"{name}={text}: holds no value")
    return found


def _rows(found: Staircase) -> list[dict[str, Any]]:
    return [
        {
            **{name: row[name] for name in found.varied},
            "latency": format_latency(row["latency_s"]),
            "low": format_latency(row["low_s"]),
            "high": format_latency(row["high_s"]),
            "in range": row["in_range"],
            **({"worthwhile": row["worthwhile"]} if "worthwhile" in row else {}),
        }
        for row in found.rows()
    ]
