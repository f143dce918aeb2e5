"""The comparison of engines: every one of them answers what the library that trained the model does."""

from __future__ import annotations

import json
import sys

import pytest

from experiments import deployed_forms

MODELS = {
    "trees": ("lightgbm", {"most_trees": 10}),
    "oblivious trees": ("catboost", {"most_trees": 10}),
    "forest": ("random_forest", {"trees": 5}),
    "network": ("mlp", {"epochs": 1}),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    pytest.importorskip("lightgbm")
    pytest.importorskip("catboost")
    out = tmp_path_factory.mktemp("results")
    options = ["--out", str(out), "--train-rows", "200", "--rounds", "1", "--seconds", "5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployed_forms, "ROWS", 300)
        patch.setattr(deployed_forms, "MODELS", MODELS)
        patch.setattr(sys, "argv", ["deployed_forms", *options])
        assert deployed_forms.main() == 0
    assert "| network | onnxruntime |" in (out / "deployed_forms.md").read_text()
    found: list[dict[str, object]] = json.loads((out / "deployed_forms.json").read_text())["rows"]
    return found


def test_every_engine_answers_the_same(rows: list[dict[str, object]]) -> None:
    assert [row for row in rows if float(str(row["largest difference"])) > 1e-4] == []


def test_each_model_is_timed_in_its_own_library_first(rows: list[dict[str, object]]) -> None:
    first = {str(row["model"]): row for row in reversed(rows)}
    assert {row["engine"] for row in first.values()} == {"its own library"}
    assert {row["one row, x faster"] for row in first.values()} == {1.0}


def test_the_chosen_form_is_among_them(rows: list[dict[str, object]]) -> None:
    assert {row["model"] for row in rows if str(row["engine"]).startswith("medn (")} == set(MODELS)
