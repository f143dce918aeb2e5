"""Training tables on disk: what is read is what was written, and what cannot be read counts as none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from medn.core.splits import PARTS, Split
from medn.layer_generators.kind import layer_kinds
from medn.runs.tables import Source, kind_table, read_source
from medn.runs.training_table import FACTS, TrainingTable, load_table, read_facts, save_table, table_path

WriteRun = Callable[..., Path]


@pytest.fixture(scope="module")
def source(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Source:
    return read_source(write_run(tmp_path_factory.mktemp("tables") / "run"))


def made(source: Source, seed: int = 0, kind: str = "linear") -> TrainingTable:
    table = kind_table(source, kind)
    rows = Split().parts(table.table, seed)
    usual = {"batch_size": 1, "cache": "hot"}
    return TrainingTable("made-up", table, rows, "random", seed, source.target, usual, {"made-up": 1e9})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "made-up" / "linear.safetensors"


def loaded(path: Path) -> TrainingTable:
    found = load_table(path)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["linear", "activation"])
def test_a_table_is_read_as_it_was_written(source: Source, path: Path, kind: str) -> None:
    table = made(source, kind=kind)
    save_table(path, table)
    again = loaded(path)
    assert again.key == table.key
    assert again.source.key == table.source.key
    assert again.source.table.schema == table.source.table.schema
    assert (again.source.table.groups == table.source.table.groups).all()
    for part in PARTS:
        assert (getattr(again.rows, part) == getattr(table.rows, part)).all()
    assert (again.target, again.usual, again.streaming) == (table.target, table.usual, table.streaming)
    told = (
        "choice",
        "constants",
        "left_out",
        "gaps",
        "unstable",
        "noise",
        "output_error",
        "devices",
        "sheets",
        "dtypes",
    )
    assert [getattr(again.source, name) for name in told] == [getattr(table.source, name) for name in told]


def test_a_table_that_is_there_is_not_written_again(source: Source, path: Path) -> None:
    save_table(path, made(source))
    written = path.stat().st_mtime_ns
    save_table(path, made(source))
    assert path.stat().st_mtime_ns == written


def test_another_table_takes_its_place(source: Source, path: Path) -> None:
    save_table(path, made(source))
    save_table(path, made(source, seed=1))
    assert loaded(path).seed == 1
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_key_changes_with_rows_split_and_seed(source: Source) -> None:
    table = made(source)
    rows = table.source.table
    slower = replace(table.source, table=replace(rows, target=rows.target * (1 + 1e-9)))
    assert table.rows.folds is not None
    turned = replace(table.rows, folds=(table.rows.folds + 1) % 5)
    parted = replace(table.rows, validation=table.rows.train[:5], folds=None)
    tables = [replace(table, source=slower), replace(table, seed=1), made(source, 1)]
    tables += [replace(table, rows=rows) for rows in (turned, parted)]
    assert len({each.key for each in (table, *tables)}) == 6


def test_facts_are_read_without_rows(source: Source, path: Path) -> None:
    table = made(source)
    save_table(path, table)
    facts = read_facts(path)
    assert facts is not None
    assert (facts["key"], facts["seed"], facts["parts"]) == (table.key, 0, list(PARTS))


def test_no_table_is_none(path: Path) -> None:
    assert (load_table(path), read_facts(path)) == (None, None)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_half_a_table_counts_as_none(source: Source, path: Path, share: float) -> None:
    save_table(path, made(source))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert load_table(path) is None


def test_a_table_with_a_changed_byte_counts_as_none(source: Source, path: Path) -> None:
    save_table(path, made(source))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert load_table(path) is None


@pytest.mark.parametrize("changed", [{"version": 99}, {"parts": None, "names": 5}, {"target": {}}, {"declared": 5}])
def test_a_table_with_strange_facts_counts_as_none(source: Source, path: Path, changed: dict[str, object]) -> None:
    save_table(path, made(source))
    arrays, facts = safetensors.numpy.load_file(path), read_facts(path) or {}
    path.write_bytes(safetensors.numpy.save(arrays, {FACTS: json.dumps(facts | changed)}))
    assert load_table(path) is None


def test_a_table_of_other_costs_of_its_kind_counts_as_none(
    source: Source, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_table(path, made(source))
    monkeypatch.setattr(layer_kinds["linear"], "revision", 7)
    assert load_table(path) is None


def test_every_split_and_device_has_a_place_of_its_own() -> None:
    run = Path("run")
    assert table_path(run, Split(), "a/b", "linear") == run / "tables" / "a%2Fb" / "linear.safetensors"
    assert table_path(run, Split("pooled"), "all", "linear") == run / "tables-pooled" / "all" / "linear.safetensors"


def test_inputs_that_single_precision_does_not_hold_stay_exact(source: Source, path: Path) -> None:
    table = made(source)
    exact = replace(table.source.table, inputs=table.source.table.inputs + np.pi)
    save_table(path, replace(table, source=replace(table.source, table=exact)))
    assert (loaded(path).source.table.inputs == exact.inputs).all()


def test_rows_that_were_never_calm_are_read_as_they_were_written(source: Source, path: Path) -> None:
    table = made(source)
    flags = np.arange(len(table.source.table)) % 3 == 0
    save_table(path, replace(table, source=replace(table.source, never_calm=flags)))
    assert np.array_equal(loaded(path).source.never_calm, flags)  # type: ignore[arg-type]
