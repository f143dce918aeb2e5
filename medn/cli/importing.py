"""`medn import`: measurements that were made elsewhere."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.completion import complete_shipped
from medn.cli.import_results import ToolOption, write_results
from medn.cli.output import AsJson, say, write_json, write_rows
from medn.core.errors import UsageError
from medn.core.shipped import MAPPINGS, found_file

MOST_REASONS = 10
"""Reasons for refusals that are shown; JSON has them all."""


def import_rows(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...", help="CSV (also compressed), Parquet or Feather; with --plan, results or their folders."
        ),
    ],
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="The run folder they go to.")],
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="MAPPING",
            help="Says what the columns mean: a YAML file, or one of `medn list mappings`.",
            autocompletion=complete_shipped(MAPPINGS),
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="DIR", help="What `medn plan` wrote: these are what a benchmark tool told of it."
        ),
    ] = None,
    tool: ToolOption = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Instead of a mapping: the table is a layer kind of its own, of this name.")
    ] = "",
    latency: Annotated[str, typer.Option("--latency", metavar="COLUMN", help="With --kind: the latency.")] = "",
    unit: Annotated[str, typer.Option("--unit", help="Of the latency: s, ms, us or ns; else its name ends so.")] = "",
    layer: Annotated[
        str, typer.Option("--layer", metavar="A,B", help="Columns that make a layer; all inputs if left out.")
    ] = "",
    device: Annotated[
        str, typer.Option("--device", help="Its name, where the table has no column device; with --plan, another one.")
    ] = "",
    work: Annotated[
        str, typer.Option("--work", metavar="AMOUNT", help="What there is to compute: a column, or such as 2*m*n*k.")
    ] = "",
    moved: Annotated[
        str,
        typer.Option("--bytes", metavar="AMOUNT", help="What there is to move: a column, or such as 2*m*k + 2*k*n."),
    ] = "",
    drop: Annotated[str, typer.Option("--drop", metavar="A,B", help="Columns that are no inputs.")] = "",
    rename: Annotated[list[str], typer.Option("--rename", metavar="OLD=NEW", help="Another name for a column.")] = [],  # noqa: B006
    where: Annotated[
        list[str], typer.Option("--where", metavar="COLUMN=A,B", help="Only rows with one of these values.")
    ] = [],  # noqa: B006
    dtype: Annotated[
        list[str],
        typer.Option("--dtype", metavar="NAME=BYTES", help="A further data type, with the bytes of an element."),
    ] = [],  # noqa: B006
    mix_environments: Annotated[
        bool, typer.Option("--mix-environments", help="Add to a run that holds something else already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring measurements made elsewhere into a run.

    With --map, a mapping says how rows become layers of a kind that medn knows. With --kind and --latency, the table
    is a layer kind of its own: every other column is an input. Columns named device, batch_size, utilization, cache,
    dtype and threads keep their meaning. Rows that are no possible layer are left out, and the reasons are counted.
    With --plan, what benchmark tools told of the layers that `medn plan` wrote; `medn list tools` names those it reads.

    \b
    Examples:
      medn import layers.csv --map mapping.yaml --run runs/v100
      medn import cde_layers.csv.gz --map cde_conv2d --run runs/v100
      medn import gemm.csv --kind gemm --latency latency_ms --run runs/gemm
      medn import ops.csv --kind rope --latency us --unit us --layer heads,tokens --where op=rope --run runs/rope
      medn import results --plan phone --run runs/phone
    """
    from medn.cli.progress import RowProgress
    from medn.importing.import_table import import_table
    from medn.importing.mapping import load_mapping
    from medn.importing.table_file import open_table
    from medn.runs.folder import RunFolder

    if plan is not None:
        if mapping is not None or kind or any((latency, unit, layer, work, moved, drop, rename, where, dtype)):
            raise UsageError("--plan says what was measured: of the other options, only --device and --tool go with it")
        write_results(plan, tables, run, device, tool, mix_environments, as_json)
        return
    if len(tables) > 1 or tool:
        raise UsageError("several tables, and --tool, go with --plan; bring other tables in one by one")
    (table,) = tables
    only_with_kind = (latency, unit, layer, device, work, moved, drop, rename, where, dtype)
    if (mapping is None) == (not kind):
        raise UsageError("say what the table holds: --map MAPPING, --kind NAME with --latency COLUMN, or --plan DIR")
    if mapping is not None and any(only_with_kind):
        raise UsageError("--latency, --unit, --layer and the like go with --kind; a mapping says all of it itself")
    if kind and not latency:
        raise UsageError("--kind needs --latency COLUMN: which column is the latency")
    notes: tuple[str, ...] = ()
    declared = None
    if mapping is not None:
        meaning, opened = load_mapping(found_file(MAPPINGS, mapping)), open_table(table)
    else:
        from medn.importing.declaration import Declaration, declare

        opened = open_table(table)
        declaration = declare(
            opened,
            Declaration(
                kind=kind,
                latency=latency,
                unit=unit,
                device=device,
                layer=_names(layer),
                work=work,
                traffic=moved,
                drop=_names(drop),
                rename=dict(_pair("--rename", argument) for argument in rename),
                where={name: _names(values) for name, values in (_pair("--where", argument) for argument in where)},
                dtypes=_dtypes(dtype),
            ),
        )
        meaning, declared, notes = declaration.mapping, declaration.kind, declaration.notes
    progress = RowProgress()
    outcome = import_table(
        opened,
        meaning,
        RunFolder(run),
        declared=declared,
        mix_environments=mix_environments,
        on_rows=progress.on_rows,
    )
    outcome = replace(outcome, notes=(*outcome.notes, *notes))
    if as_json:
        write_json({"run": str(run), **asdict(outcome)})
    else:
        shown = outcome.refused[:MOST_REASONS]
        write_rows([{"rows": count, "left out because": reason} for reason, count in shown], as_json=False)
        if len(outcome.refused) > len(shown):
            say(f"and {len(outcome.refused) - len(shown)} further reasons; --json shows them all")
    for note in outcome.notes:
        say(f"{table.name}: {note}")
    refused = outcome.rows - outcome.imported
    say(f"{outcome.rows} rows read, {outcome.imported} imported into {run}, {refused} left out")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _dtypes(arguments: list[str]) -> dict[str, float]:
    from medn.core.dtypes import stated_dtypes
    from medn.estimator.table_files import read_value

    pairs = [_pair("--dtype", argument) for argument in arguments]
    try:
        return stated_dtypes({name: read_value(size) for name, size in pairs})
    except ValueError as error:
        raise UsageError(f"--dtype: {error}") from None


def _pair(option: str, text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip() or not value.strip():
        raise UsageError(f"{option} {text!r}: must be written as NAME=VALUE")
    return name.strip(), value.strip()
