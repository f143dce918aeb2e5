"""`medn export`: a run as Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.output import AsJson, write_rows
from medn.cli.summary import RunArgument
from medn.core.errors import StoreError

if TYPE_CHECKING:
    from medn.core.store import Store

SAMPLES_FILE = "samples.parquet"


def export(
    run: RunArgument,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Where to; RUN/dataset if left out.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help=f"Also every sample, in {SAMPLES_FILE}.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a run as Parquet, one file for each layer kind.

    \b
    Examples:
      medn export runs/quickstart
      medn export runs/quickstart --to tables --raw
    """
    from medn.runs.folder import RunFolder

    folder = RunFolder(run)
    with folder.store(must_exist=True) as store:
        files = write_dataset(store, to or folder.dataset, raw=raw)
    write_rows([{"file": str(path), "bytes": path.stat().st_size} for path in files], as_json)


def write_dataset(store: Store, to: Path, *, raw: bool = False) -> list[Path]:
    """The run's tables, without the columns its config drops; the target is that of what is there now."""
    from medn.core.dataset import write_parquet, write_samples
    from medn.runs.imported_kinds import kind_notes
    from medn.runs.measured import read_measured
    from medn.runs.stated_dtypes import dtypes_note, read_dtypes

    measurements, chosen = read_measured(store)
    drop = (store.read_note("config") or {}).get("drop", ())
    try:
        environments, dtypes = store.environments(), dtypes_note(read_dtypes(store))
        files = write_parquet(
            to, measurements, chosen.target, drop, lambda kind: kind_notes(kind, environments) | dtypes
        )
        if raw:
            files.append(write_samples(to / SAMPLES_FILE, measurements))
    except OSError as error:
        raise StoreError(f"cannot write tables to {to}: {error.strerror or error}") from None
    return files
