"""From a run or its Parquet files to the table of one layer kind that regressors learn from."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.data_sheet import Sheets
from medn.core.dataset import MEASURED_NOTE, Row, dataset_row
from medn.core.errors import NothingMeasured, StoreError, UsageError, unknown
from medn.core.mistaken import told_instead
from medn.core.quantities import FIRST, all_quantities, measured_columns
from medn.core.statistic import NoiseFloor, Target
from medn.core.store import JOURNAL_NAME, StoreState
from medn.core.table import Schema, Table, as_inputs, former_name
from medn.core.text import first_line
from medn.core.values import Layer, Scalar, canonical_json, content_key, freeze
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.runs.folder import RunFolder
from medn.runs.imported_kinds import IMPORTED_NOTE, ImportedKinds
from medn.runs.inputs import InputChoice, input_columns, shared_sheets
from medn.runs.measured import RunTarget, read_measured
from medn.runs.stated_dtypes import dtypes_in, read_dtypes
from medn.runs.summary import UNSTABLE_ABOVE

SHEETS_NOTE = "sheets"
"""What the data sheets of a run's devices are kept under."""

TEST_PART = "test"
"""How the manifest of imported rows says that they are for test only."""

MOST_GAPS = 0.1
"""A column with gaps in a larger share of the rows is no input; with fewer gaps, those rows are left out."""


@dataclass(frozen=True)
class Source:
    """Measured rows by kind, and what the run says about them."""

    rows: Mapping[str, Sequence[Row]]
    choice: InputChoice = field(default_factory=InputChoice)
    probes: tuple[str, ...] = ()
    unstable_above: float = UNSTABLE_ABOVE
    target: RunTarget = field(default_factory=RunTarget)
    imported: ImportedKinds = field(default_factory=ImportedKinds)
    """What imported tables say of the kinds."""
    sheets: Sheets = field(default_factory=dict)
    """The data sheets of devices, as far as they are known."""
    environments: Mapping[str, Any] = field(default_factory=dict)
    """Where rows are from, by id."""
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """The data types that the run states beside medn's own, with the bytes of one element."""

    def layer_kind(self, name: str) -> LayerKind:
        if name not in self.imported.declared and name not in layer_kinds:
            raise StoreError(layer_kinds.absence(name))
        return self.imported.declared.get(name) or layer_kinds[name]

    @property
    def test_environments(self) -> frozenset[str]:
        """Those whose rows are for test only."""
        return frozenset(key for key, manifest in self.environments.items() if manifest.get("part") == TEST_PART)

    @property
    def devices(self) -> list[str]:
        return sorted({str(row["device"]) for rows in self.rows.values() for row in rows})


@dataclass(frozen=True, eq=False)
class KindTable:
    """The table of one kind, and what became of everything that is not in it."""

    layer_kind: LayerKind
    table: Table
    choice: InputChoice
    constants: Mapping[str, Scalar]
    """Columns that never varied, with their value: no inputs, but a query with another value lies outside."""
    left_out: Mapping[str, int]
    """How many points are missing here, by reason."""
    gaps: tuple[str, ...]
    """Columns that are no inputs because many points have no value there."""
    unstable: int
    """Points whose visits repeat badly; they are in the table unless `left_out` has them."""
    noise: NoiseFloor | None
    output_error: float | None
    """The largest difference to torch's outputs among the points of the table; None where nothing was compared."""
    devices: tuple[str, ...] = ()
    sheets: Sheets = field(default_factory=dict)
    """What the inputs that follow from data sheets were made with, by device."""
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """The bytes of one element that inputs were made with, of the data types that are not medn's own."""
    is_test: NDArray[np.bool_] | None = None
    """The rows that are for test only; None where the data says nothing about it."""
    points: tuple[str, ...] = ()
    """The key of the point of each row, where the table was made of what was measured."""
    never_calm: NDArray[np.bool_] | None = None
    """The rows known to have had no calm visit; None where that is known of no row."""

    @property
    def kind(self) -> str:
        return self.layer_kind.name

    @cached_property
    def key(self) -> str:
        """Changes with anything a regressor could notice."""
        names = [former_name(name) for name in self.table.schema.names]
        hashed = hashlib.sha256(canonical_json([names, dict(self.table.schema.categories)]).encode())
        for array in (self.table.inputs, self.table.target, *self.table.further.values()):
            hashed.update(np.ascontiguousarray(array).tobytes())
        hashed.update("".join(self.table.groups).encode())
        if self.is_test is not None:
            hashed.update(self.is_test.tobytes())
        return hashed.hexdigest()[:20]


def read_source(path: Path) -> Source:
    """The rows of a run folder, of a Parquet file, or of a folder of Parquet files."""
    if (path / JOURNAL_NAME).is_file():
        return _read_run(RunFolder(path))
    if files := _parquet_files(path):
        return _read_parquet(files)
    if not path.exists():
        near = [other.name for other in path.parent.glob("*/") if (other / JOURNAL_NAME).is_file()]
        raise StoreError(unknown("run", path.name, near) + f" (in {path.parent}). Make one with: medn sweep CONFIG")
    raise NothingMeasured(f"{path} holds no measurements yet. Make them with: medn sweep CONFIG{told_instead(path)}")


def _parquet_files(path: Path) -> list[Path]:
    if path.suffix == ".parquet" and path.is_file():
        return [path]
    return sorted(path.glob("*.parquet")) or sorted((path / "dataset").glob("*.parquet"))


def state_now(path: Path) -> StoreState:
    """What a run folder or its Parquet files hold, found without reading the measurements."""
    if (path / JOURNAL_NAME).is_file():
        with RunFolder(path).store(must_exist=True) as store:
            return store.state()
    return _parquet_state(_parquet_files(path))


def _parquet_state(files: Sequence[Path]) -> StoreState:
    import pyarrow.parquet

    rows = [pyarrow.parquet.read_metadata(file).num_rows for file in files]
    return StoreState(sum(rows), content_key([[file.name, file.stat().st_size] for file in files]))


def _read_run(folder: RunFolder) -> Source:
    with folder.store(must_exist=True) as store:
        measurements, target = read_measured(store)
        config = store.read_note("config") or {}
        environments = store.environments()
        sheets = store.read_note(SHEETS_NOTE) or {}
        dtypes = read_dtypes(store)
    if not measurements:
        raise NothingMeasured(f"{folder.path} holds no measurements yet. Make them with: medn sweep CONFIG")
    rows: dict[str, list[Row]] = {}
    for measurement in measurements:
        rows.setdefault(measurement.point.layer.kind, []).append(dataset_row(measurement, target.target))
    probes = sorted({name for each in measurements for visit in each.visits for name in visit.probes})
    return Source(
        _completed(rows),
        InputChoice.from_config(config),
        tuple(probes),
        float(config.get("unstable_above", UNSTABLE_ABOVE)),
        target,
        ImportedKinds.of(environments),
        sheets,
        environments,
        dtypes,
    )


def _read_parquet(files: Sequence[Path]) -> Source:
    """Probes are not told from other columns in a Parquet file, so they are raw columns here."""
    import pyarrow
    import pyarrow.parquet

    rows: dict[str, list[Row]] = {}
    target: dict[str, Any] = {}
    told: dict[str, Any] = {}
    dtypes: dict[str, float] = {}
    for file in files:
        try:
            table = pyarrow.parquet.read_table(file)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise UsageError(f"{file} cannot be read as a table: {first_line(error)}") from None
        notes = table.schema.metadata or {}
        if b"medn.kind" in notes:  # such as the file of all samples has not
            strange = set(json.loads(notes.get(MEASURED_NOTE.encode(), b"[]"))) - set(measured_columns())
            rows[notes[b"medn.kind"].decode()] = table.drop_columns(sorted(strange)).to_pylist()
            target = json.loads(notes[b"medn.target"])
            told |= json.loads(notes.get(IMPORTED_NOTE.encode(), b"{}"))
            dtypes |= dtypes_in(notes)
    if not rows:
        raise UsageError(f"{files[0]} was not written by medn export: it does not say which layer kind it holds")
    chosen = RunTarget(Target.from_definition(target), chosen_from=_parquet_state(files))
    return Source(_completed(rows), target=chosen, imported=ImportedKinds.of(told), dtypes=dtypes)


def _completed(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """With the parameters that layers leave unsaid."""
    for name in (name for name in rows if name in layer_kinds):
        unsaid = layer_kinds[name].complete({})
        for row in rows[name] if unsaid else ():
            row |= {parameter: value for parameter, value in unsaid.items() if row.get(parameter) is None}
    return rows


def kind_table(
    source: Source,
    kind: str,
    *,
    device: str | None = None,
    choice: InputChoice | None = None,
    without_unstable: bool = False,
) -> KindTable:
    """The table of one kind, on one device or on all; the source's own choice of inputs if none is given."""
    if kind not in source.rows:
        raise UsageError(unknown("measured layer kind", kind, source.rows))
    chosen, layer_kind = choice or source.choice, source.layer_kind(kind)
    asked_for = [row for row in source.rows[kind] if device in (None, row["device"])]
    left_out: Counter[str] = Counter()
    good: list[Row] = []
    for row in asked_for:
        if row["status"] != "ok" or not row["latency_s"]:
            left_out[f"{row['status']}: {row['reason']}" if row["reason"] else str(row["status"])] += 1
        elif without_unstable and _is_unstable(row, source.unstable_above):
            left_out["unstable"] += 1
        else:
            good.append(row)
    if not good:
        reasons = "; ".join(f"{reason} ({count} points)" for reason, count in left_out.most_common(3))
        raise NothingMeasured(f"no point of {kind} can be learned from: {reasons or 'none was measured'}")
    good, gaps = _without_gaps(good, left_out)
    columns = {name: column_of([row[name] for row in good]) for name in _asked(good) if name not in gaps}
    inputs = input_columns(layer_kind, columns, chosen, source.probes, source.sheets, source.dtypes)
    devices = tuple(sorted({str(row["device"]) for row in good}))
    constants = {name: _scalar(column[0]) for name, column in inputs.items() if (column == column[0]).all()}
    varying = {name: column for name, column in inputs.items() if name not in constants}
    if not varying:
        raise UsageError(f"no input of {kind} varies: {', '.join(inputs) or 'all of them are dropped'}")
    differences = [row["split_half_difference"] for row in good if row["split_half_difference"] is not None]
    return KindTable(
        layer_kind=layer_kind,
        table=_table(layer_kind, source.imported.layer_columns.get(kind, ()), varying, good),
        choice=chosen,
        constants=constants,
        left_out=left_out,
        gaps=gaps,
        unstable=sum(_is_unstable(row, source.unstable_above) for row in asked_for),
        noise=NoiseFloor.of(differences),
        output_error=max((row["output_error"] for row in good if row.get("output_error") is not None), default=None),
        devices=devices,
        sheets=shared_sheets(source.sheets, devices) if "hardware" in chosen.groups else {},
        dtypes={name: size for name, size in source.dtypes.items() if name in {row.get("dtype") for row in good}},
        is_test=_test_rows(good, source.test_environments),
        points=tuple(str(row["point_key"]) for row in good),
        never_calm=_never_calm(good),
    )


def _test_rows(rows: Sequence[Row], environments: frozenset[str]) -> NDArray[np.bool_] | None:
    """A point with visits on both sides is for test: what is tested is never learned from."""
    if not environments:
        return None
    return np.array([not environments.isdisjoint(str(row["environment_id"]).split("+")) for row in rows])


def _never_calm(rows: Sequence[Row]) -> NDArray[np.bool_] | None:
    counts = [row.get("calm_visits") for row in rows]
    return None if all(count is None for count in counts) else np.array([count == 0 for count in counts])


def _is_unstable(row: Row, above: float) -> bool:
    difference = row["split_half_difference"]
    return difference is not None and difference > above


def _asked(rows: Sequence[Row]) -> list[str]:
    names, measured = dict.fromkeys(name for row in rows for name in row), measured_columns()
    return [name for name in names if name not in measured]


def _without_gaps(rows: list[Row], left_out: Counter[str]) -> tuple[list[Row], tuple[str, ...]]:
    missing = {name: sum(row.get(name) is None for row in rows) for name in _asked(rows)}
    gaps = tuple(name for name, count in missing.items() if count > MOST_GAPS * len(rows))
    for name in (name for name, count in missing.items() if count and name not in gaps):
        kept = [row for row in rows if row.get(name) is not None]
        left_out[f"no value of {name}"] += len(rows) - len(kept)
        rows = kept
    return rows, gaps


def column_of(values: Sequence[Scalar]) -> NDArray[Any]:
    """Strings as strings, everything else as it is; a column that mixes both is one of strings."""
    strings = any(isinstance(value, str) for value in values)
    return np.array([str(value) for value in values]) if strings else np.array(values)


def _scalar(value: Any) -> Scalar:
    """The plain Python value behind an element of an array."""
    plain: Scalar = value.item()
    return plain


def layer_key(kind: LayerKind, layer_columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """Which layer a row is of: rows with the same key stay on one side of every split."""
    told_by = (*kind.identity, *layer_columns)
    return Layer(kind.name, freeze({name: row[name] for name in told_by if name in row})).key


def _table(
    kind: LayerKind, layer_columns: Sequence[str], inputs: Mapping[str, NDArray[Any]], rows: Sequence[Row]
) -> Table:
    categories = {
        name: tuple(str(value) for value in np.unique(column))
        for name, column in inputs.items()
        if column.dtype.kind == "U"
    }
    schema = Schema(tuple(inputs), categories)
    groups = [layer_key(kind, layer_columns, row) for row in rows]
    return Table(
        schema,
        as_inputs(inputs, schema),
        np.array([row["latency_s"] for row in rows], dtype=np.float64),
        np.array(groups),
        {
            name: np.array([row.get(name) for row in rows], dtype=np.float64)
            for name in all_quantities()
            if name in FIRST or any(row.get(name) is not None for row in rows)
        },
    )
