"""Results show themselves shortly, as HTML in a notebook, and as a table of pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medn
from medn.choosing.leaderboard import COLUMNS, Leaderboard
from medn.predictor.predictor import Predictor

LINEAR: dict[str, Any] = {"in_features": 100, "out_features": 200, "batch_size": 8}
LONGEST = 200


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    row = {**dict.fromkeys(COLUMNS), "device": "cpu", "kind": "linear", "pareto": True, "chosen": False}
    rows = [{**row, "candidate": f"<{number}>", "mape": number / 100, "bytes": 9} for number in range(30)]
    failed = {**row, "candidate": "ridge", "note": "no time"}
    return Leaderboard("laptop", "random", 0, {}, [*rows, failed], [{"mape": 0.1}], [], {})


def test_a_prediction_is_short_and_says_what_it_is(predictor: Predictor) -> None:
    said = repr(predictor.layer("linear", **LINEAR))
    assert said.startswith("<Prediction ")
    assert said.endswith("in range>")
    assert len(said) < LONGEST


def test_a_prediction_out_of_range_says_why(predictor: Predictor) -> None:
    assert repr(predictor.layer("linear", **LINEAR, threads=2)).endswith("outside: threads=2 (measured: 1)>")


def test_a_table_of_predictions_is_short(predictor: Predictor) -> None:
    found = predictor.predict({**LINEAR, "in_features": [100] * 1000 + [90_000]}, "linear")
    assert repr(found) == "<Predictions of 1,001 layers, 1 of them outside what was measured>"


def test_a_notebook_shows_the_first_rows_and_how_many_there_are(predictor: Predictor) -> None:
    shown = predictor.predict({**LINEAR, "in_features": [100] * 50}, "linear")._repr_html_()
    assert shown.count("<tr>") == 1 + 20
    assert "and 30 more" in shown


def test_a_table_of_pandas_has_every_row_and_what_was_measured(predictor: Predictor) -> None:
    pytest.importorskip("pandas")
    frame = predictor.predict({**LINEAR, "in_features": [100, 120]}, "linear").to_frame()
    assert list(frame.columns) == ["latency_s", "low_s", "high_s", "level", "in_range"]
    assert predictor.layer("linear", **LINEAR).to_frame()["latency_s"][0] == frame["latency_s"][0]


def test_the_leaderboard_is_short_and_shows_what_was_chosen_first(board: Leaderboard) -> None:
    assert repr(board) == "<Leaderboard of laptop: 31 candidates for 1 layer kinds, error of the chosen 10.0 %>"
    assert board._repr_html_().count("<tr>") == 1 + 20


def test_what_stands_in_a_notebook_is_escaped(board: Leaderboard) -> None:
    assert "&lt;0&gt;" in board._repr_html_()
    assert "<0>" not in board._repr_html_()


def test_the_leaderboard_as_a_table_has_all_columns(board: Leaderboard) -> None:
    pytest.importorskip("pandas")
    assert set(COLUMNS) <= set(board.to_frame().columns)


def test_a_model_is_short_and_its_table_has_every_layer(convolution_bundle: Path) -> None:
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("pandas")
    layers = [torch.nn.Conv2d(3, 16, 3, padding=1), *(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(19))]
    predictor = medn.load(convolution_bundle)
    found = predictor.model(torch.nn.Sequential(*layers), torch.zeros(1, 3, 32, 32))
    assert repr(found).startswith("<ModelPrediction of 20 layers at batch size 1: ")
    assert len(repr(found)) < LONGEST
    assert found.to_frame()["latency_s"].sum() == pytest.approx(found.latency_s)
    assert found._repr_html_().count("<tr>") == 21
