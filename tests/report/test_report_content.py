"""What a report says, checked as numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medn.core.errors import StoreError, UsageError
from medn.core.metrics import score
from medn.core.table import Schema, Table
from medn.layer_generators.kind import layer_kinds
from medn.report.content import Content, KindContent, gather
from medn.report.effects import Importance, binned, heat_map, heat_map_names, importances


@pytest.fixture(scope="module")
def linear(content: Content) -> KindContent:
    return next(kind for kind in content.kinds if kind.kind == "linear")


def table_of(columns: dict[str, Any], latency_s: Any) -> Table:
    rows = len(latency_s)
    inputs = np.column_stack([np.asarray(column, dtype=float) for column in columns.values()])
    return Table(Schema(tuple(columns)), inputs, np.asarray(latency_s, dtype=float), np.arange(rows).astype(str))


def test_every_chosen_kind_is_there_with_its_candidates(content: Content) -> None:
    assert [(kind.device, kind.kind) for kind in content.kinds] == [("made-up", "activation"), ("made-up", "linear")]
    for kind in content.kinds:
        assert {"median", "roofline", "test-law"} <= {row["candidate"] for row in kind.rows}
        assert [row["mape"] for row in kind.rows] == sorted(row["mape"] for row in kind.rows)


def test_predictions_score_what_the_leaderboard_says(content: Content) -> None:
    for kind in content.kinds:
        found = score(kind.predicted_s, kind.test.target)
        assert found.mape == pytest.approx(kind.row["mape"], rel=1e-5)
        assert np.abs(kind.errors).mean() == pytest.approx(found.mape)


def test_failed_points_are_counted(linear: KindContent) -> None:
    assert dict(linear.source.left_out) == {"failed: no such kernel": 2}
    assert (linear.points, linear.layers) == (78, 39)


def test_the_one_input_that_counts_is_the_most_important() -> None:
    random = np.random.default_rng(0)
    work, idle = random.uniform(1, 100, (2, 200))
    table = table_of({"idle": idle, "work": work}, work)
    first, second = importances(lambda inputs: inputs[:, 1], table)
    assert (first.name, second.name) == ("work", "idle")
    assert first.growth > 0.5
    assert second.growth == 0


def test_a_heat_map_shows_where_predictions_are_too_high() -> None:
    width, height = (each.ravel().astype(float) for each in np.meshgrid([1, 2], [10, 20, 30], indexing="ij"))
    width, height = np.repeat(width, 5), np.repeat(height, 5)
    table = table_of({"width": width, "height": height}, np.ones(30))
    found = heat_map(table, np.where((width == 2) & (height >= 20), 1.5, 1.0), ("width", "height"))
    assert found.labels == (("1", "2"), ("10", "20-30"))
    assert found.errors.tolist() == [[0.0, 0.0], [0.0, 0.5]]
    assert found.counts.tolist() == [[5, 10], [5, 10]]


def test_a_cell_of_a_heat_map_with_one_row_says_nothing() -> None:
    table = table_of({"width": [1, 1, 2], "height": [1, 1, 2]}, np.ones(3))
    assert np.isnan(heat_map(table, np.ones(3), ("width", "height")).errors[1, 1])


@pytest.mark.parametrize("values", [[3.0], [1.0, 1.0, 1.0, 9.0], list(range(100)), [0.0, 0.5, 0.5, 0.9]])
def test_bins_hold_every_value_once(values: list[float]) -> None:
    places, labels = binned(np.array(values, dtype=float), 4)
    assert set(places) == set(range(len(labels)))
    assert len(labels) <= 4


def test_parameters_that_rise_together_are_not_both_shown() -> None:
    sizes = np.arange(50.0)
    table = table_of({"in_features": sizes, "out_features": 2 * sizes, "rows": sizes % 7, "flops": sizes}, sizes + 1)
    found = [Importance(name, growth) for name, growth in (("flops", 9.0), ("in_features", 3.0), ("out_features", 2.0))]
    assert heat_map_names(layer_kinds["linear"], table, [*found, Importance("rows", 1.0)]) == ("in_features", "rows")
    assert heat_map_names(layer_kinds["linear"], table, found) is None


def test_staircases_go_through_what_was_measured(linear: KindContent) -> None:
    assert {each.parameter for each in linear.staircases} == {"in_features", "out_features"}
    for staircase in linear.staircases:
        measured = linear.source.table.column(staircase.parameter)
        assert (staircase.values.min(), staircase.values.max()) == (measured.min(), measured.max())
        predicted = staircase.staircase.predictions
        assert (np.diff(predicted.latency_s) > 0).all()
        assert (predicted.low_s < predicted.latency_s).all()
        assert (predicted.latency_s < predicted.high_s).all()


def test_a_staircase_says_its_layer_with_defaults_for_what_is_no_input(linear: KindContent) -> None:
    staircase = linear.staircases[0]
    layer = staircase.staircase.fixed
    assert layer["bias"] is True
    assert layer["batch_size"] in (1, 8)
    assert staircase.parameter not in layer
    assert "flops" not in layer


def test_measured_layers_beside_a_staircase_are_alike_in_the_rest(linear: KindContent) -> None:
    for staircase in linear.staircases:
        assert len(staircase.near_s) >= 1
        ends = staircase.values.min(), staircase.values.max()
        assert all(ends[0] <= value <= ends[1] for value in staircase.near_values)


def test_wider_promises_cover_more(linear: KindContent) -> None:
    promised, covered = zip(*linear.reliability, strict=True)
    assert promised == (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    assert list(covered) == sorted(covered)


def test_tuning_never_gets_worse(linear: KindContent) -> None:
    history = linear.searches["test-law"].best
    assert len(history) > 1
    assert list(history) == sorted(history, reverse=True)
    assert "median" not in linear.searches


def test_heat_maps_show_the_two_parameters_asked_for(chosen_run: Path) -> None:
    content = gather(chosen_run, ("in_features", "batch_size"))
    heats = {kind.kind: kind.heat for kind in content.kinds}
    assert heats["activation"] is None
    assert heats["linear"] is not None
    assert heats["linear"].names == ("in_features", "batch_size")


def test_parameters_that_no_kind_has_are_refused(chosen_run: Path) -> None:
    with pytest.raises(UsageError, match="no numeric input named 'in_feature'"):
        gather(chosen_run, ("in_feature", "batch_size"))
    with pytest.raises(UsageError, match="no kind has both elements and in_features"):
        gather(chosen_run, ("elements", "in_features"))


def test_a_run_that_nothing_was_chosen_from_says_what_to_do(chosen_run: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has no leaderboard yet"):
        gather(tmp_path)
    copied = shutil.copytree(chosen_run, tmp_path / "copied")
    shutil.rmtree(copied / "chosen")
    with pytest.raises(StoreError, match="nothing chosen"):
        gather(copied)


def test_a_leaderboard_of_another_choice_is_refused(chosen_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(chosen_run, tmp_path / "copied")
    board = json.loads((copied / "leaderboard.json").read_text())
    for row in board["rows"]:
        row["chosen"] = row["candidate"] == "median"
    (copied / "leaderboard.json").write_text(json.dumps(board))
    with pytest.raises(StoreError, match="does not belong to what was chosen for activation: medn select"):
        gather(copied)
