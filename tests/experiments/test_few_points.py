"""Learning from few layers: how they are drawn, that cells are kept, and what is told of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.few_points import __main__ as script
from experiments.few_points import cells, tables
from experiments.few_points.cells import OWN, Cell, farthest
from experiments.few_points.summary import CHOSEN, ORACLE, Result, by_name, family_rows, gain, size_rows
from experiments.few_points.tables import Drawn, draw, has_enough, own_kinds, thinned
from medn.core.errors import UsageError
from medn.core.table import Schema, Table
from medn.importing.import_table import import_table
from medn.importing.mapping import load_mapping
from medn.runs.folder import RunFolder
from medn.runs.tables import kind_table, read_source

LAYERS, BATCHES = 40, (1, 2, 4, 8, 16, 32)
MAPPING = """
kind: linear
device: bench
latency_s: {column: latency_ms, scale: 0.001}
columns: {in_features: inputs, out_features: outputs, batch_size: batch, bias: true}
sheets:
  bench: {multiprocessors: 4, peak_gflops: 100, bandwidth_gb_s: 20}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Linear layers at six batch sizes."""
    folder = tmp_path_factory.mktemp("few")
    random = np.random.default_rng(0)
    with (folder / "layers.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["inputs", "outputs", "batch", "latency_ms"])
        for _ in range(LAYERS):
            wide, high = (int(np.exp(random.uniform(3, 7))) for _ in range(2))
            writer.writerows([wide, high, batch, 0.01 + 2e-6 * batch * wide * high] for batch in BATCHES)
    (folder / "layers.yaml").write_text(MAPPING)
    import_table(folder / "layers.csv", load_mapping(folder / "layers.yaml"), RunFolder(folder / "run"))
    return folder / "run"


@pytest.fixture(scope="module")
def drawn(run: Path) -> Drawn:
    (found,) = own_kinds(run)
    return found


def test_test_layers_are_the_same_for_all_sizes_and_never_learned_from(drawn: Drawn, tmp_path: Path) -> None:
    learned, tested = {}, {}
    for size in (10, 20):
        thinned(drawn, size, 3, tmp_path / str(size))
        made = kind_table(read_source(tmp_path / str(size)), "linear")
        assert made.is_test is not None
        learned[size] = set(made.table.groups[~made.is_test])
        tested[size] = set(made.table.groups[made.is_test])
    assert tested[10] == tested[20]
    assert learned[10] < learned[20]
    assert (len(learned[10]), len(learned[20]), len(tested[10])) == (10, 20, 10)
    assert not learned[20] & tested[20]


def test_fewer_layers_than_asked_for_are_taken_with_more_points_each(drawn: Drawn, tmp_path: Path) -> None:
    for size, points in ((30, 4), (40, 6)):
        thinned(drawn, size, 0, tmp_path / str(size))
        made = kind_table(read_source(tmp_path / str(size)), "linear")
        groups = made.table.groups[~np.asarray(made.is_test)]
        assert (len(set(groups)), len(groups)) == (30, 30 * points)
    assert has_enough(drawn, 180, 0)
    assert not has_enough(drawn, 181, 0)


def test_a_thinned_run_keeps_the_data_sheets(drawn: Drawn, tmp_path: Path) -> None:
    thinned(drawn, 10, 0, tmp_path)
    assert read_source(tmp_path).sheets == read_source(drawn.run).sheets != {}


def test_seeds_draw_other_layers(drawn: Drawn) -> None:
    assert set(draw(drawn, 0).test) != set(draw(drawn, 1).test)


def test_the_farthest_fifth_is_far_from_every_learned_row() -> None:
    schema = Schema(("size",), {})
    rows = [
        Table(schema, np.array(values)[:, None], np.ones(len(values)), np.array(values).astype(str))
        for values in ([1.0, 2.0], [1.0, 2.0, 2.1, 1.1, 9.0])
    ]
    assert farthest(*rows).tolist() == [False, False, False, False, True]


@pytest.fixture
def arguments(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The script on the run, with two families that take no time."""
    verb = cells.verb

    def fewer_families(*words: str) -> str:
        return verb(*words, *(("--regressors", "roofline,linear") if words[0] == "train" else ()))

    monkeypatch.setattr(cells, "verb", fewer_families)
    return ["--run", str(run), "--out", str(tmp_path), "--sizes", "20", "--seeds", "0", "--seconds", "2"]


def test_a_cell_is_learned_once_and_anew_where_other_code_made_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script.main(arguments) == 0
    (row,) = json.loads((tmp_path / "few_points.json").read_text())["rows"]
    assert row["layers"] == 20
    assert row["best family on test rows %"] <= float(row["best fixed family"].split()[1]) + 0.01
    assert all(0 <= row[name] <= 100 for name in ("covered %", "covered far %"))
    assert (tmp_path / "few_points.png").is_file()
    monkeypatch.setattr(cells, "_by_verbs", lambda *_: pytest.fail("trained again"))
    assert script.main(arguments) == 0
    monkeypatch.setattr(cells, "code_version", lambda: "another")
    assert script.main(arguments) == 0
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        script.main([*arguments, "--again"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--peers", "flamel"], "Did you mean 'flaml'"),
        (["--sizes", "40,many"], "--sizes must be whole numbers"),
        (["--only", "nothing like it"], "nothing to draw from"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: list[str], wrong: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        script.main([*arguments, *wrong])


def result(table: str, seed: int, chosen: float, **families: float) -> Result:
    own = {"error": chosen, "families": families, "promised": chosen, "covered": 0.9, "covered far": 0.8, "width": 0.2}
    cell = Cell(Drawn(table, Path(), "linear", "bench", is_public=True), 40, seed)
    return Result(cell, {OWN: {**own, "spent": {"train": 1.0, "select": 1.0}}})


def test_errors_are_geometric_means_and_the_best_family_is_that_of_each_cell() -> None:
    results = [result("a", 0, 0.02, medn=0.04, linear=0.01), result("b", 0, 0.08, medn=0.04, linear=0.16)]
    means = by_name(results)
    assert {name: round(means[name], 6) for name in (CHOSEN, ORACLE, "medn", "linear")} == {
        CHOSEN: 4.0, ORACLE: 2.0, "medn": 4.0, "linear": 4.0,
    }  # fmt: skip
    (row,) = size_rows(results)
    assert row["regret %"] == pytest.approx(100)
    assert row["worst regret %"] == pytest.approx(100)


def test_a_family_that_failed_somewhere_is_told_but_not_compared() -> None:
    results = [result("a", 0, 0.02, medn=0.04, linear=0.01), result("b", 0, 0.08, medn=0.04)]
    assert "linear" not in by_name(results)
    assert {row["who"]: row["40"] for row in family_rows(results)}["linear"] == "1.00 (1 of 2)"


def test_the_gain_is_a_mean_over_tables_in_points() -> None:
    results = [result("a", seed, 0.02, medn=0.04) for seed in range(9)] + [result("b", 0, 0.08, medn=0.14)]
    assert gain(results, "medn") == "+4.00 (+4.00 to +4.00)"
    assert gain(results, "no such family") is None


def test_public_rows_that_are_narrowed_keep_the_sheet_of_their_device_alone() -> None:
    mapping = tables._narrowed(tables.PUBLIC["neusight linear"])
    assert list(mapping["sheets"]) == [tables.V100] == [mapping["where"]["device"]]
    assert "test" not in mapping
