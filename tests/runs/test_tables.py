"""From a run to tables: what becomes an input, what is left out, and that nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.cli.main import run as medn
from medn.core.errors import ConfigError, NothingMeasured, StoreError, UsageError
from medn.layer_generators.sweep import parse_sweep
from medn.runs.inputs import InputChoice
from medn.runs.tables import Source, kind_table, read_source

WriteRun = Callable[..., Path]


@pytest.fixture
def source(write_run: WriteRun, tmp_path: Path) -> Source:
    return read_source(write_run(tmp_path / "run"))


def test_inputs_are_parameters_conditions_features_and_probes(source: Source) -> None:
    names = kind_table(source, "linear").table.schema.names
    assert {"in_features", "batch_size", "flops", "moved_bytes", "out_features_mod_16", "load_average"} <= set(names)


def test_what_the_config_drops_is_no_input(source: Source) -> None:
    assert "bias" not in kind_table(source, "linear").table.schema.names


def test_columns_that_never_vary_are_remembered_with_their_value(source: Source) -> None:
    found = kind_table(source, "linear", device="made-up")
    assert {"dtype": "fp32", "threads": 1, "rows": 1, "device": "made-up"}.items() <= found.constants.items()
    assert not set(found.constants) & set(found.table.schema.names)


def test_a_probe_that_gave_nothing_is_no_input(source: Source) -> None:
    found = kind_table(source, "linear")
    assert found.gaps == ("temperature",)
    assert "temperature" not in found.table.schema.names


def test_a_row_without_a_value_that_others_have_is_left_out(source: Source) -> None:
    rows = [dict(row) for row in source.rows["activation"]]
    rows[0]["load_average"] = None
    found = kind_table(Source({"activation": rows}, probes=source.probes), "activation")
    assert found.left_out == {"no value of load_average": 1}
    assert len(found.table) == len(rows) - 1


def test_failed_points_are_counted_with_their_reason(source: Source) -> None:
    found = kind_table(source, "linear")
    assert found.left_out == {"failed: no such kernel": 2}
    assert len(found.table) == 78


def test_unstable_points_stay_unless_asked_otherwise(source: Source) -> None:
    kept, dropped = (kind_table(source, "linear", without_unstable=choice) for choice in (False, True))
    assert (kept.unstable, dropped.unstable) == (2, 2)
    assert len(kept.table) - len(dropped.table) == 2
    assert dropped.left_out["unstable"] == 2


def test_texts_are_categories(source: Source) -> None:
    found = kind_table(source, "activation")
    assert found.table.schema.categories == {"function": ("relu", "tanh")}
    assert set(found.table.column("function")) == {0.0, 1.0}


def test_rows_of_one_layer_share_a_group(source: Source) -> None:
    table = kind_table(source, "linear").table
    assert len(set(table.groups)) == 39
    for group in set(table.groups):
        assert len(set(table.column("in_features")[table.groups == group])) == 1


def test_layers_that_differ_in_a_dropped_column_are_different_layers(source: Source) -> None:
    rows = [row for row in source.rows["linear"] if row["status"] == "ok"]
    sizes = {(row["in_features"], row["out_features"], row["bias"]) for row in rows}
    assert len(set(kind_table(source, "linear").table.groups)) == len(sizes)


def test_features_are_those_of_the_single_layer(source: Source) -> None:
    table = kind_table(source, "linear").table
    expected = 2 * table.column("in_features") * table.column("out_features") * table.column("batch_size")
    np.testing.assert_allclose(table.column("flops"), expected, rtol=1e-6)


def test_targets_come_along_with_gaps_as_nan(source: Source) -> None:
    further = kind_table(source, "linear").table.further
    assert (further["memory_bytes"] == 4096).all()
    assert np.isnan(further["energy_j"]).all()
    assert (further["latency_p90_s"] >= kind_table(source, "linear").table.target).all()
    assert np.isnan(further["latency_p99_s"]).all()


def test_the_choice_of_a_sweep_config_is_the_choice_of_its_run() -> None:
    config = parse_sweep("{name: x, devices: [torch], layers: {linear: {}}, inputs: [raw], drop: [bias]}")
    kept = {"inputs": config.inputs, "drop": config.drop}
    assert InputChoice.from_config(kept) == InputChoice(("raw",), ("bias",))
    assert InputChoice.from_config({}) == InputChoice()


def test_a_group_of_inputs_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"inputs.0: must be one of .* \(got 'analitic'\). Did you mean 'analytic'\?"):
        parse_sweep("{name: x, devices: [torch], layers: {linear: {}}, inputs: [analitic]}")


@pytest.mark.parametrize(
    ("groups", "present", "absent"),
    [
        (("raw",), "in_features", "flops"),
        (("analytic",), "flops", "in_features"),
        (("analytic", "probes"), "load_average", "batch_size"),
    ],
)
def test_the_user_chooses_the_inputs(source: Source, groups: tuple[str, ...], present: str, absent: str) -> None:
    found = kind_table(source, "linear", choice=InputChoice(groups))
    assert present in found.table.schema.names
    assert absent not in found.table.schema.names
    assert found.choice.groups == groups


def test_several_devices_in_one_table_are_a_category(write_run: WriteRun, tmp_path: Path) -> None:
    source = read_source(write_run(tmp_path / "run", devices=("one", "two")))
    assert source.devices == ["one", "two"]
    both = kind_table(source, "linear")
    assert both.table.schema.categories["device"] == ("one", "two")
    assert len(kind_table(source, "linear", device="two").table) == len(both.table) / 2


def test_the_same_run_gives_the_same_key_and_more_data_another(write_run: WriteRun, tmp_path: Path) -> None:
    first, again = (kind_table(read_source(write_run(tmp_path / name)), "linear") for name in ("a", "b"))
    more = kind_table(read_source(write_run(tmp_path / "c", layers=41)), "linear")
    assert first.key == again.key != more.key


def test_parquet_files_give_the_same_table(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert medn(["export", str(run), "--to", str(tmp_path / "tables"), "--raw"]) == 0
    for path in (tmp_path / "tables", tmp_path / "tables" / "activation.parquet"):
        found, expected = (kind_table(read_source(each), "activation").table for each in (path, run))
        np.testing.assert_array_equal(found.target, expected.target)
        assert set(found.schema.names) == set(expected.schema.names)
        np.testing.assert_array_equal(found.column("flops"), expected.column("flops"))


def test_parquet_without_a_parameter_says_what_the_analytic_inputs_need(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert medn(["export", str(run), "--to", str(tmp_path / "tables")]) == 0
    source = read_source(tmp_path / "tables")  # the run's config drops `bias`
    with pytest.raises(UsageError, match=r"the analytic inputs of linear need .*\(bias missing\)"):
        kind_table(source, "linear")
    assert "in_features" in kind_table(source, "linear", choice=InputChoice(("raw",))).table.schema.names


def test_a_kind_that_was_not_measured_is_named_with_the_near_miss(source: Source) -> None:
    with pytest.raises(UsageError, match=r"no measured layer kind named 'linea'. Did you mean 'linear'\?"):
        kind_table(source, "linea")


def test_no_input_left_is_said(source: Source) -> None:
    choice = InputChoice(("probes",), drop=("load_average",))
    with pytest.raises(UsageError, match="no input of linear varies: all of them are dropped"):
        kind_table(source, "linear", choice=choice)


def test_only_failures_are_said(source: Source) -> None:
    failed = [row for row in source.rows["linear"] if row["status"] != "ok"]
    with pytest.raises(NothingMeasured, match=r"no such kernel \(2 points\)"):
        kind_table(Source({"linear": failed}), "linear")


def test_a_folder_without_a_run_says_what_to_do(write_run: WriteRun, tmp_path: Path) -> None:
    write_run(tmp_path / "laptop", layers=1, activations=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"no run named 'labtop'. Did you mean 'laptop'\?"):
        read_source(tmp_path / "labtop")
    with pytest.raises(NothingMeasured, match="medn sweep"):
        read_source(tmp_path / "empty")


def test_a_file_that_is_no_table_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.parquet").write_text("not a table")
    with pytest.raises(UsageError, match="cannot be read as a table"):
        read_source(tmp_path / "other.parquet")


def test_bytes_moved_and_bytes_measured_are_two_columns(source: Source) -> None:
    table = kind_table(source, "linear").table
    assert table.column("moved_bytes").min() < table.column("moved_bytes").max()
    assert (table.further["memory_bytes"] == 4096).all()


def test_an_input_is_dropped_by_the_name_that_earlier_versions_gave_it(source: Source) -> None:
    names = kind_table(source, "linear", choice=InputChoice(drop=("memory_bytes",))).table.schema.names
    assert "moved_bytes" not in names
    assert "flops" in names


def test_the_key_of_a_table_is_that_of_earlier_versions() -> None:
    first = read_source(Path(__file__).parents[1] / "formats" / "first" / "run")
    assert kind_table(first, "linear").key == "5a2013810134ac26ecf9"


def test_rows_without_a_calm_visit_are_known_where_that_was_measured(source: Source) -> None:
    assert kind_table(source, "activation").never_calm is None
    rows = [dict(row, calm_visits=(0, 2, None)[place % 3]) for place, row in enumerate(source.rows["activation"])]
    found = kind_table(Source({"activation": rows}, probes=source.probes), "activation")
    assert found.never_calm is not None
    assert found.never_calm.tolist() == [place % 3 == 0 for place in range(len(rows))]
    assert found.key == kind_table(source, "activation").key
