"""`medn table`: latency along a parameter, which pruning walks down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.predict import BundleArgument, DeviceOption, KindArgument, ValuesArgument, parse_texts
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

    For lookup tables of whole models, or in the formats of other programs, see `medn tables`.
    A parameter varies as FROM:TO:STEP (TO is left out, as in Python's range) or as a list A,B,C. A value is worthwhile
    if no larger one is as fast.

    \b
    Examples:
      medn table runs/laptop/laptop.medn conv2d out_channels=8:513:8 in_channels=64 kernel_size=3 in_size=56
      medn table runs/laptop/laptop.medn linear in_features=64,128,256 out_features=512 --csv
    """
    import medn
    from medn.core.table_content import STANDARD
    from medn.estimator.table_files import read_values, write_table

    given = {name: read_values(name, text) for name, text in parse_texts(values).items()}
    varied = {name: several for name, several in given.items() if isinstance(several, (list, range))}
    fixed = {name: value for name, value in given.items() if name not in varied}
    found = medn.load(bundle, device or None).table(kind, fixed, **varied)
    if as_json:
        write_json({"kind": kind, "fixed": fixed, "round_to": found.round_to, "rows": found.rows()})
    elif as_csv:
        write_table(found.rows(), STANDARD)
    else:
        write_rows(_rows(found), as_json=False)
    if found.round_to is not None:
        say(f"round {next(iter(varied))} to multiples of {found.round_to}")


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
