"""Measurements made elsewhere, from CSV or Parquet, brought into a run so that they take the same way as our own."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.errors import ConfigError, NothingMeasured, UsageError, unknown
from medn.core.store import Store
from medn.core.values import Point, Samples, Visit, content_key
from medn.pipeline.import_mapping import Cells, ImportMapping, PointReader, Source, positive
from medn.pipeline.run_folder import RunFolder

ROWS_PER_NOTICE = 5_000
NOT_GIVEN = "not in the imported table"


@dataclass(frozen=True)
class ImportOutcome:
    rows: int
    """Rows of the table that the mapping's `where` lets through."""
    imported: int
    refused: tuple[tuple[str, int], ...]
    """Why rows were left out, the most frequent reason first."""


def import_table(
    table: Path,
    mapping: ImportMapping,
    folder: RunFolder,
    *,
    mix_environments: bool = False,
    on_rows: Callable[[int], None] | None = None,
) -> ImportOutcome:
    """Bring the rows of a table into a run. The same table under the same mapping is taken in once only."""
    rows = read_table(table, mapping)
    manifest = {
        "source": table.name,
        "sha256": hashlib.sha256(table.read_bytes()).hexdigest(),
        "mapping": mapping.model_dump(mode="json"),
    }
    environment = content_key(manifest)
    refused: Counter[str] = Counter()
    with folder.locked(), folder.store() as store:
        present = store.environments()
        if environment in present:
            raise UsageError(f"{table} is in {folder.path} already, under the same mapping")
        if present and not mix_environments:
            raise UsageError(
                f"{folder.path} holds measurements from elsewhere. Choose another folder with --run, "
                "or pass --mix-environments to keep both, each row marked with its own"
            )
        store.add_environment(environment, manifest)
        entries = _entries(_counted(rows, on_rows), mapping, environment, store, table.stat().st_mtime, refused)
        # One commit for the whole table: a table that is half in could not be told from one that is all in.
        store.record(entries)
    imported = len(rows) - refused.total()
    if not imported:
        reasons = [f"{reason} ({count} rows)" for reason, count in refused.most_common(3)]
        why = "; ".join(reasons) or "none has the values that `where` asks for"
        raise NothingMeasured(f"no row of {table} could be used: {why}")
    return ImportOutcome(len(rows), imported, tuple(refused.most_common()))


def _counted(rows: list[dict[str, Any]], on_rows: Callable[[int], None] | None) -> Iterator[Cells]:
    for number, row in enumerate(rows, start=1):
        yield row
        if on_rows and number % ROWS_PER_NOTICE == 0:
            on_rows(ROWS_PER_NOTICE)


def read_table(path: Path, mapping: ImportMapping) -> list[dict[str, Any]]:
    """The rows the mapping asks for, with only the columns it names."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if not path.is_file():
        raise UsageError(f"no table at {path}")
    try:
        read = pyarrow.parquet.read_table if path.suffix == ".parquet" else pyarrow.csv.read_csv
        table = read(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UsageError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}") from None
    missing = [column for column in mapping.read_columns if column not in table.column_names]
    if missing:
        raise UsageError(f"{path}: " + "; ".join(unknown("column", name, table.column_names) for name in missing))
    rows: list[dict[str, Any]] = table.select(mapping.read_columns).to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in mapping.where.items())]


def _entries(
    rows: Iterator[Cells],
    mapping: ImportMapping,
    environment: str,
    store: Store,
    measured_at: float,
    refused: Counter[str],
) -> Iterator[tuple[Point, Visit]]:
    """A visit with one sample for each row that can be used; several rows of one point are several passes."""
    reader = PointReader(mapping)
    next_passes = Counter({key: max(passes) + 1 for key, passes in store.visited().items()})
    for row in rows:
        try:
            point = reader.point(row)
            latency_s = positive("latency_s", mapping.latency_s.read(row))
            memory_bytes = _measured("memory_bytes", mapping.memory_bytes, row)
            energy_j = _measured("energy_j", mapping.energy_j, row)
        except UsageError as error:
            refused["; ".join(error.mistakes) if isinstance(error, ConfigError) else str(error)] += 1
            continue
        visit = Visit(
            point_key=point.key,
            pass_number=next_passes[point.key],
            environment_id=environment,
            started_at=measured_at,
            status="ok",
            samples=Samples(np.array([latency_s]), np.array([math.nan]), np.array([False])),
            memory_bytes=None if memory_bytes is None else round(memory_bytes),
            memory_reason=NOT_GIVEN if memory_bytes is None else "",
            energy_j=energy_j,
            energy_reason=NOT_GIVEN if energy_j is None else "",
        )
        next_passes[point.key] += 1
        yield point, visit


def _measured(name: str, source: Source | None, row: Cells) -> float | None:
    """What else the table may know of a row; a gap is no mistake."""
    found = source.read(row) if source else None
    return None if found is None else positive(name, found)
