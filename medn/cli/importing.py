"""`medn import`: measurements that were made elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json, write_rows

MOST_REASONS = 10
"""Reasons for refusals that are shown; JSON has them all."""


def import_rows(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV (also compressed), Parquet or Feather.")],
    mapping: Annotated[Path, typer.Option("--map", metavar="MAPPING", help="Says what the columns mean (YAML).")],
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="The run folder they go to.")],
    mix_environments: Annotated[
        bool, typer.Option("--mix-environments", help="Add to a run that holds something else already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring measurements made elsewhere into a run.

    Rows that are no possible layer are left out, and the reasons are counted.

    \b
    Examples:
      medn import layers.csv --map mapping.yaml --run runs/v100
      medn import layers.parquet --map mapping.yaml --run runs/v100 --json
    """
    from medn.cli.progress import RowProgress
    from medn.pipeline.import_mapping import load_mapping
    from medn.pipeline.importing import import_table
    from medn.pipeline.run_folder import RunFolder

    progress = RowProgress()
    outcome = import_table(
        table, load_mapping(mapping), RunFolder(run), mix_environments=mix_environments, on_rows=progress.on_rows
    )
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
