"""`medn import` and `medn export` on small tables, and on a large public one where it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from medn.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PUBLIC_DATA = Path(os.environ.get("MEDN_SHARED_DATA", ROOT.parent / "shared" / "data"))

TABLE = """op,n,m,batch,ms,phone
dense,16,32,1,0.5,pixel
dense,16,32,1,0.7,pixel
dense,16,64,4,1.5,pixel
dense,0,64,4,1.5,pixel
dense,16,64,4,-1,pixel
pool,16,64,4,1.5,pixel
"""
MAPPING = {
    "kind": "linear",
    "where": {"op": "dense"},
    "device": {"column": "phone"},
    "latency_s": {"column": "ms", "scale": 0.001},
    "columns": {"in_features": "n", "out_features": "m", "batch_size": "batch"},
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A table, a mapping and a run folder."""
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "mapping.yaml").write_text(json.dumps(MAPPING))
    return str(tmp_path / "table.csv"), str(tmp_path / "mapping.yaml"), str(tmp_path / "run")


Files = tuple[str, str, str]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_import_tells_rows_read_imported_and_refused(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    told = run_json(capsys, "import", table, "--map", mapping, "--run", folder)
    assert (told["run"], told["rows"], told["imported"]) == (folder, 5, 3)
    assert sorted(told["refused"]) == [
        ["in_features: must be at least 1 (got 0)", 1],
        ["latency_s: must be a number above 0 (got -0.001)", 1],
    ]


def test_import_shows_people_why_rows_were_left_out(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    assert run(["import", table, "--map", mapping, "--run", folder]) == 0
    out, err = capsys.readouterr()
    assert "in_features: must be at least 1 (got 0)" in out
    assert err == f"5 rows read, 3 imported into {folder}, 2 left out\n"


def test_imported_rows_are_summed_up_like_measured_ones(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    run_json(capsys, "import", table, "--map", mapping, "--run", folder)
    (kind,) = run_json(capsys, "summary", folder)["kinds"]
    assert (kind["device"], kind["kind"], kind["points"]) == ("pixel", "linear", 2)
    assert kind["latency_low_s"] == pytest.approx(0.0005)
    assert run(["summary", folder]) == 0
    assert "imported from table.csv" in capsys.readouterr().out


def test_a_table_without_a_usable_row_gives_3(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    Path(mapping).write_text(json.dumps({**MAPPING, "where": {"op": "conv"}}))
    assert run(["import", table, "--map", mapping, "--run", folder]) == 3
    assert "none has the values that `where` asks for" in capsys.readouterr().err


def test_a_wrong_mapping_gives_2_with_all_mistakes(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    wrong = {**MAPPING, "latency_s": {"scale": 2.0}, "columns": {"in_features": {}}}
    Path(mapping).write_text(json.dumps(wrong))
    assert run(["import", table, "--map", mapping, "--run", folder]) == 2
    said = capsys.readouterr().err
    assert "latency_s: needs either a column or a value" in said
    assert "columns.in_features: needs either a column or a value" in said


@pytest.mark.parametrize("option", ["--map", "--run"])
def test_import_says_which_option_is_missing(option: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    given = {"--map": mapping, "--run": folder}
    del given[option]
    assert run(["import", table, *(word for pair in given.items() for word in pair)]) == 2
    assert option in capsys.readouterr().err


def test_export_writes_a_table_per_kind(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping, folder = files
    run_json(capsys, "import", table, "--map", mapping, "--run", folder)
    (written,) = run_json(capsys, "export", folder)
    assert written["file"] == str(Path(folder) / "dataset" / "linear.parquet")
    assert pyarrow.parquet.read_table(written["file"]).num_rows == 2


def test_export_writes_every_sample_where_asked(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, mapping, folder = files
    run_json(capsys, "import", table, "--map", mapping, "--run", folder)
    written = run_json(capsys, "export", folder, "--raw", "--to", str(tmp_path / "tables"))
    assert [Path(entry["file"]).name for entry in written] == ["linear.parquet", "samples.parquet"]
    samples = pyarrow.parquet.read_table(tmp_path / "tables" / "samples.parquet").to_pydict()
    assert sorted(samples["wall_s"]) == pytest.approx([0.0005, 0.0007, 0.0015])
    assert sorted(samples["pass_number"]) == [0, 0, 1]


def test_export_to_where_nothing_can_be_written_is_one_sentence(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    table, mapping, folder = files
    run_json(capsys, "import", table, "--map", mapping, "--run", folder)
    assert run(["export", folder, "--to", f"{table}/tables"]) == 1
    assert capsys.readouterr().err.startswith(f"medn: cannot write tables to {table}/tables: ")


def test_export_of_nothing_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(tmp_path / "nowhere")]) == 1
    assert "medn sweep CONFIG" in capsys.readouterr().err


@pytest.mark.skipif(not (PUBLIC_DATA / "cde_layers.csv.gz").is_file(), reason="cde_layers.csv.gz is not at hand")
def test_a_public_table_comes_in_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, mapping = PUBLIC_DATA / "cde_layers.csv.gz", ROOT / "experiments" / "imports" / "cde_conv2d.yaml"
    told = run_json(capsys, "import", str(table), "--map", str(mapping), "--run", str(tmp_path / "run"))
    assert (told["rows"], told["imported"]) == (25_017, 25_017)
