"""Tables from elsewhere become points and visits; what cannot be used is counted, never lost silently."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medn.core.errors import ConfigError, NothingMeasured, UsageError
from medn.core.store import JOURNAL_NAME
from medn.core.values import Condition, Measurement, Point
from medn.importing import mapping as import_mapping
from medn.importing.import_table import ImportOutcome, chosen_rows, import_table
from medn.importing.mapping import ImportMapping, PointReader, load_mapping
from medn.importing.table_file import open_table
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]

CONV = "op,pass,device,batch,in_c,out_c,in_hw,kernel,same,latency_ms,note\n"
ROWS = """conv2d,forward,V100,8,3,16,32,3,1,0.5,a
conv2d,forward,V100,8,3,16,32,3,1,0.6,a
conv2d,forward,V100,8,3,16,2,5,0,0.7,b
conv2d,backward,V100,8,3,16,32,3,1,0.8,a
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "layers.csv"
    path.write_text(CONV + ROWS)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def mapping(tmp_path: Path, **changes: object) -> ImportMapping:
    written: dict[str, Any] = {
        "kind": "conv2d",
        "where": {"op": "conv2d", "pass": "forward"},
        "device": "V100",
        "latency_s": {"column": "latency_ms", "scale": 0.001},
        "columns": {
            "in_channels": "in_c",
            "out_channels": "out_c",
            "in_size": "in_hw",
            "kernel_size": "kernel",
            "same_padding": "same",
            "batch_size": "batch",
        },
    }
    path = tmp_path / "mapping.yaml"
    path.write_text(json.dumps({**written, **changes}))
    return load_mapping(path)


def measurements(folder: RunFolder) -> list[Measurement]:
    with folder.store(must_exist=True) as store:
        return list(store.measurements())


def test_rows_of_one_point_are_its_passes(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    import_table(table, mapping(tmp_path), folder)
    (found,) = measurements(folder)
    layer = layer_kinds["conv2d"].layer(in_channels=3, out_channels=16, in_size=32, kernel_size=3, same_padding=True)
    assert found.point == Point(layer, Condition(batch_size=8), "V100")
    assert [visit.pass_number for visit in found.visits] == [0, 1]
    assert [visit.samples.wall_s.tolist() for visit in found.visits] == [
        [pytest.approx(0.0005)],
        [pytest.approx(0.0006)],
    ]


def test_what_is_no_possible_layer_is_counted_with_its_reason(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    outcome = import_table(table, mapping(tmp_path), folder)
    sentence = "the window covers 5 but the padded input has only 2"
    assert outcome == ImportOutcome(3, 2, ((f"kernel_h: {sentence}; kernel_w: {sentence}", 1),))


def test_the_mapping_in_the_docstring_works(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    shown = [line[4:] for line in (import_mapping.__doc__ or "").splitlines() if line.startswith("    ")]
    path = tmp_path / "shown.yaml"
    path.write_text("\n".join(shown))
    assert import_table(table, load_mapping(path), folder).imported == 2


def test_the_example_in_the_documents_works(folder: RunFolder, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
    table, chosen = tmp_path / "layers.csv", tmp_path / "mapping.yaml"
    for path, language in ((table, "csv"), (chosen, "yaml")):
        path.write_text(re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)[0])
    outcome = import_table(table, load_mapping(chosen), folder)
    assert (outcome.rows, outcome.imported) == (3, 3)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "imports").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_mapping_that_is_shipped_is_right(path: Path) -> None:
    assert load_mapping(path).columns


def test_an_imported_point_has_the_key_of_a_measured_one(folder: RunFolder, tmp_path: Path) -> None:
    table = tmp_path / "dense.csv"
    table.write_text("n,m,busy,threads,s\n16.0,32.0,0,2.0,0.5\n")
    columns = {"in_features": "n", "out_features": "m", "utilization": "busy", "threads": "threads"}
    import_table(table, mapping(tmp_path, kind="linear", where={}, columns=columns, latency_s="s"), folder)
    (found,) = measurements(folder)
    layer = layer_kinds["linear"].layer(in_features=16, out_features=32)
    assert found.visits[0].point_key == Point(layer, Condition(utilization=0.0, threads=2), "V100").key


def test_columns_of_ones_own_are_kept_with_the_condition(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    import_table(table, mapping(tmp_path, extra={"note": "note", "rack": 7}), folder)
    (found,) = measurements(folder)
    assert found.point.condition.own == {"note": "a", "rack": 7}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"busy": None}, "utilization: must be a number (got None)"),
        ({"busy": 2}, "utilization: must be at most 0.95 (got 2)"),
        ({"batch": 1.5}, "batch_size: must be a whole number (got 1.5)"),
        ({"phone": None}, "device: missing"),
        ({"n": None}, "layer linear: 1 mistake\n  in_features: missing"),
        ({"n": float("nan")}, "layer linear: 1 mistake\n  in_features: missing"),
        ({"n": "many"}, "layer linear: 1 mistake\n  in_features: must be a whole number (got 'many')"),
    ],
)
def test_a_row_that_is_no_point_says_why(cells: dict[str, Any], reason: str, tmp_path: Path) -> None:
    columns = {"in_features": "n", "out_features": "m", "utilization": "busy", "batch_size": "batch"}
    chosen = mapping(tmp_path, kind="linear", device={"column": "phone"}, columns=columns)
    reader = PointReader(chosen, layer_kinds["linear"])
    row = {"n": 16, "m": 32, "busy": 0.5, "batch": 1, "phone": "pixel", **cells}
    with pytest.raises(UsageError) as caught:
        reader.point(row)
    assert str(caught.value) == reason


def test_memory_and_energy_come_along_and_gaps_are_told(folder: RunFolder, tmp_path: Path) -> None:
    table = tmp_path / "dense.csv"
    table.write_text("n,m,s,kb,j\n16,32,0.5,2,0.25\n16,64,0.5,,\n")
    columns = {"in_features": "n", "out_features": "m"}
    more = {"memory_bytes": {"column": "kb", "scale": 1024}, "energy_j": "j"}
    chosen = mapping(tmp_path, kind="linear", where={}, columns=columns, latency_s="s", **more)
    assert import_table(table, chosen, folder).imported == 2
    by_size = {found.point.layer.values["out_features"]: found.visits[0] for found in measurements(folder)}
    assert by_size[32].quantities == {"memory_bytes": 2048, "energy_j": 0.25}
    assert by_size[64].quantities["memory_bytes"] == "not in the imported table"


def test_a_compressed_table_and_parquet_read_alike(table: Path, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    chosen = mapping(tmp_path)
    packed, columns = tmp_path / "layers.csv.gz", tmp_path / "layers.parquet"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), columns)
    first, *others = (chosen_rows(open_table(path), chosen) for path in (table, packed, columns))
    assert others == [first, first]


def test_a_table_is_taken_in_once_only(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    import_table(table, mapping(tmp_path), folder)
    with pytest.raises(UsageError, match="already, under the same mapping"):
        import_table(table, mapping(tmp_path), folder, mix_environments=True)


def test_another_table_is_mixed_in_only_when_asked(table: Path, folder: RunFolder, tmp_path: Path) -> None:
    import_table(table, mapping(tmp_path), folder)
    other = tmp_path / "other.csv"
    other.write_text(CONV + ROWS.splitlines()[0])
    with pytest.raises(UsageError, match="--mix-environments"):
        import_table(other, mapping(tmp_path), folder)
    import_table(other, mapping(tmp_path), folder, mix_environments=True)
    (found,) = measurements(folder)
    assert [visit.pass_number for visit in found.visits] == [0, 1, 2]
    assert len({visit.environment_id for visit in found.visits}) == 2


def test_a_table_that_is_refused_whole_leaves_the_run_open_for_another(
    table: Path, folder: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(NothingMeasured, match="none has the values"):
        import_table(table, mapping(tmp_path, where={"op": "pool"}), folder)
    assert import_table(table, mapping(tmp_path), folder).imported == 2


def test_progress_is_told_in_blocks_of_rows(folder: RunFolder, tmp_path: Path) -> None:
    table, told = tmp_path / "long.csv", list[int]()
    table.write_text(CONV + ROWS.splitlines(keepends=True)[0] * 10_001)
    import_table(table, mapping(tmp_path), folder, on_rows=told.append)
    assert told == [5_000, 5_000]


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"kind": "conv2"}, "kind: no layer kind named 'conv2'. Did you mean 'conv2d'?"),
        ({"columns": {"kernel": "kernel"}}, "columns.kernel: no column named 'kernel'"),
        ({"extra": {"batch_size": "batch"}}, "extra.batch_size: belongs under columns"),
        ({"wher": {}}, "wher: unknown key. Did you mean 'where'?"),
        ({"latency_s": {"column": "a", "value": 1}}, "latency_s: needs either a column or a value"),
    ],
)
def test_a_wrong_mapping_is_told_by_path(changes: dict[str, Any], mistake: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        mapping(tmp_path, **changes)
    assert mistake in str(caught.value)


def test_a_missing_column_is_named_with_its_near_miss(table: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no column named 'latency'. Did you mean 'latency_ms'\?"):
        chosen_rows(open_table(table), mapping(tmp_path, latency_s="latency"))


@pytest.mark.parametrize("name", ["layers.csv", "layers.parquet", "layers.csv.gz"])
def test_what_is_no_table_is_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be read as a table"):
        open_table(path)


def test_a_missing_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table at"):
        open_table(tmp_path / "nowhere.csv")


def test_a_table_is_taken_in_once_only_where_an_earlier_version_did(
    table: Path, folder: RunFolder, tmp_path: Path
) -> None:
    import_table(table, mapping(tmp_path), folder)
    with closing(sqlite3.connect(folder.path / JOURNAL_NAME)) as journal, journal:
        ((manifest,),) = journal.execute("SELECT manifest FROM environments")
        written = json.loads(manifest)
        written["mapping"] |= {"memory_bytes": None, "energy_j": None, "extra": {}, "test": {}}
        journal.execute("UPDATE environments SET manifest = ?", [json.dumps(written)])
    with pytest.raises(UsageError, match="already, under the same mapping"):
        import_table(table, mapping(tmp_path), folder, mix_environments=True)
