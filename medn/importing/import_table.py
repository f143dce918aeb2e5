"""Measurements made elsewhere, from CSV or Parquet, brought into a run so that they take the same way as our own."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.data_sheet import Sheet
from medn.core.errors import ConfigError, NothingMeasured, UsageError, unknown
from medn.core.quantities import FURTHER
from medn.core.store import Store
from medn.core.values import Point, Samples, Visit, content_key
from medn.importing.mapping import Cells, ImportMapping, PointReader, ValueSource, is_wanted, positive, wanted_texts
from medn.importing.table_file import TableFile, open_table
from medn.layer_generators.declared_kind import DeclaredKind
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder
from medn.runs.imported_kinds import DECLARED, ImportedKinds
from medn.runs.stated_dtypes import keep_dtypes
from medn.runs.tables import SHEETS_NOTE, TEST_PART

ROWS_PER_NOTICE = 5_000
MOST_LISTED = 10
NOT_GIVEN = "not in the imported table"


@dataclass(frozen=True)
class ImportOutcome:
    rows: int
    """Rows of the table that the mapping's `where` lets through."""
    imported: int
    refused: tuple[tuple[str, int], ...]
    """Why rows were left out, the most frequent reason first."""
    notes: tuple[str, ...] = ()
    """What was guessed of the table, in words."""


def import_table(
    table: Path | TableFile,
    mapping: ImportMapping,
    folder: RunFolder,
    *,
    declared: DeclaredKind | None = None,
    mix_environments: bool = False,
    on_rows: Callable[[int], None] | None = None,
) -> ImportOutcome:
    """Bring the rows of a table into a run. The same table under the same mapping is taken in once only.

    `declared` is the kind of the rows where it is none of medn's own; the run remembers it.
    """
    opened = table if isinstance(table, TableFile) else open_table(table)
    path, rows = opened.path, chosen_rows(opened, mapping)
    manifest: dict[str, Any] = {
        "source": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "mapping": _said(mapping.model_dump(mode="json")),
    }
    if declared:
        manifest[DECLARED] = declared.as_json()
    test_manifest = manifest | {"part": TEST_PART}
    environment, test_environment = content_key(manifest), content_key(test_manifest)
    sheets = _sheets(mapping, rows)
    refused = Counter(opened.broken)
    with folder.undone_on_error(), folder.locked(), folder.store() as store:
        held = _held_already(store, environment, manifest, mix_environments)
        # What other tables of the run declared under the same name must agree.
        told = ImportedKinds.of({**store.environments(), environment: manifest})
        reader = PointReader(mapping, told.declared.get(mapping.kind) or layer_kinds[mapping.kind])
        keep_dtypes(store, mapping.dtypes)
        store.add_environment(environment, manifest)
        if mapping.test:
            store.add_environment(test_environment, test_manifest)
        environments = (environment, test_environment)
        entries = _entries(_counted(rows, on_rows), reader, environments, store, path.stat().st_mtime, refused)
        # One commit for the whole table: a table that is half in could not be told from one that is all in.
        store.record(_new(entries, held))
        if sheets:
            store.note(SHEETS_NOTE, {**(store.read_note(SHEETS_NOTE) or {}), **sheets})
        read = len(rows) + sum(opened.broken.values())
        imported = read - refused.total()
        if not imported:
            reasons = [f"{reason} ({count} rows)" for reason, count in refused.most_common(3)]
            raise NothingMeasured(f"no row of {path} could be used: {'; '.join(reasons)}")
    return ImportOutcome(read, imported, tuple(refused.most_common()), opened.notes)


def _held_already(store: Store, environment: str, manifest: Mapping[str, Any], mix_environments: bool) -> set[str]:
    """The points that came from the same table under other mappings; a run that holds anything else is refused."""
    present = store.environments()
    table = manifest["source"]
    same = {name: other for name, other in present.items() if other.get("sha256") == manifest["sha256"]}
    if any(_as_said(other) == _as_said(manifest) for other in same.values()):
        raise UsageError(f"{table} is in {store.path.parent} already, under the same mapping")
    if mix_environments:
        return set()
    if len(same) < len(present):
        raise UsageError(
            f"{store.path.parent} holds measurements from elsewhere. Choose another folder with --run, "
            "or pass --mix-environments to keep both, each row marked with its own"
        )
    return store.points_in(same)


def _said(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left empty, so that the same mapping stays the same when more can be said in one."""
    return {name: value for name, value in mapping.items() if value not in (None, {}, [])}


def _as_said(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What was imported and how; earlier versions wrote down what was left empty too."""
    told = {name: value for name, value in manifest.items() if name in ("source", "part", DECLARED)}
    return told | {"mapping": _said(manifest["mapping"])}


def _new(entries: Iterable[tuple[Point, Visit]], held: Collection[str]) -> Iterator[tuple[Point, Visit]]:
    """A second kind of the same table is welcome; the same rows once more would count twice."""
    for point, visit in entries:
        if point.key in held:
            raise UsageError(
                f"{point} is in the run already, from the same table under another mapping. "
                "Choose another folder with --run, or pass --mix-environments to keep both"
            )
        yield point, visit


def _sheets(mapping: ImportMapping, rows: Sequence[Cells]) -> dict[str, Sheet]:
    """The data sheets of the mapping, each of a device that the rows are of."""
    devices = {str(mapping.device.read(row)) for row in rows} if mapping.sheets else set()
    wrong = [unknown("device of the table", name, devices) for name in mapping.sheets if name not in devices]
    if wrong:
        raise UsageError(f"sheets: {'; '.join(wrong)}")
    return {name: sheet.numbers for name, sheet in mapping.sheets.items()}


def _counted(rows: list[dict[str, Any]], on_rows: Callable[[int], None] | None) -> Iterator[Cells]:
    for number, row in enumerate(rows, start=1):
        yield row
        if on_rows and number % ROWS_PER_NOTICE == 0:
            on_rows(ROWS_PER_NOTICE)


def chosen_rows(table: TableFile, mapping: ImportMapping) -> list[dict[str, Any]]:
    """The rows the mapping asks for, with only the columns it names."""
    missing = [column for column in mapping.read_columns if column not in table.names]
    if missing:
        raise UsageError(f"{table.path}: " + "; ".join(unknown("column", name, table.names) for name in missing))
    columns = {name: table.cells(name) for name in mapping.read_columns}
    kept: Sequence[int] = range(table.rows)
    for name, wanted in mapping.where.items():
        cells = columns[name]
        found = [place for place in kept if is_wanted(cells[place], wanted)]
        if kept and not found:
            there = list(dict.fromkeys(str(cells[place]) for place in kept))
            raise NothingMeasured(
                f"no row of {table.path} could be used: none has the values that `where` asks for "
                f"({name}: {_listed(sorted(wanted_texts(wanted)))}; there are {_listed(there)})"
            )
        kept = found
    return [{name: cells[place] for name, cells in columns.items()} for place in kept]


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:MOST_LISTED], *(["..."] if len(names) > MOST_LISTED else [])])


def _entries(
    rows: Iterator[Cells],
    reader: PointReader,
    environments: tuple[str, str],
    store: Store,
    measured_at: float,
    refused: Counter[str],
) -> Iterator[tuple[Point, Visit]]:
    """A visit with one sample for each row that can be used; several rows of one point are several passes.

    Rows to learn from are of the first environment, rows for test only of the second.
    """
    mapping = reader.mapping
    next_passes = Counter({key: max(passes) + 1 for key, passes in store.visited().items()})
    for row in rows:
        try:
            point = reader.point(row)
            latency_s = positive("latency_s", mapping.latency_s.read(row))
            quantities = {name: _measured(name, source, row) for name, source in mapping.measured.items()}
        except UsageError as error:
            refused["; ".join(error.mistakes) if isinstance(error, ConfigError) else str(error)] += 1
            continue
        visit = Visit(
            point_key=point.key,
            pass_number=next_passes[point.key],
            environment_id=environments[mapping.is_for_test(row)],
            started_at=measured_at,
            status="ok",
            samples=Samples(np.array([latency_s]), np.array([math.nan]), np.array([False])),
            quantities=quantities,
        )
        next_passes[point.key] += 1
        yield point, visit


def _measured(name: str, source: ValueSource | None, row: Cells) -> float | str:
    """What else the table may know of a row, or the reason why not: a gap is no mistake."""
    found = source.read(row) if source else None
    if found is None:
        return NOT_GIVEN
    if mistake := FURTHER[name].mistake(found):
        raise UsageError(f"{name}: {mistake}")
    return FURTHER[name].rounded(found)
