"""Selection within a budget for any table: the same training and the same choice as of a run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import medn
from medn.core.table import Array
from medn.sklearn import BudgetedRegressor

QUICK: dict[str, Any] = {"families": ["median", "ridge"], "seconds": 2.0}


@pytest.fixture(scope="module")
def inputs() -> Array:
    return np.random.default_rng(0).uniform(1, 100, (60, 2))


@pytest.fixture(scope="module")
def signed(inputs: Array) -> Array:
    return np.asarray(inputs[:, 0] - inputs[:, 1])


@pytest.fixture(scope="module")
def fitted(inputs: Array, signed: Array) -> BudgetedRegressor:
    return BudgetedRegressor(max_us=1e6, max_kb=30, **QUICK).fit(inputs, signed)


def test_signed_targets_are_learned(fitted: BudgetedRegressor, inputs: Array, signed: Array) -> None:
    assert fitted.score(inputs, signed) > 0.9


def test_the_bundle_keeps_to_the_budget(fitted: BudgetedRegressor) -> None:
    assert len(fitted.bundle_) <= 30_000


def test_what_was_chosen_is_fitted_on_every_row(fitted: BudgetedRegressor) -> None:
    assert fitted.refitted_


def test_the_leaderboard_has_every_candidate(fitted: BudgetedRegressor) -> None:
    names = {row["candidate"] for row in fitted.leaderboard_.rows}
    assert {"median", "ridge", fitted.chosen_} <= names


def test_a_pickled_one_predicts_the_same(fitted: BudgetedRegressor, inputs: Array) -> None:
    assert pickle.loads(pickle.dumps(fitted)).predict(inputs).tolist() == fitted.predict(inputs).tolist()


def test_what_is_saved_is_a_bundle_like_any_other(fitted: BudgetedRegressor, inputs: Array, tmp_path: Path) -> None:
    predictor = medn.load(fitted.save(tmp_path / "own.medn"))
    found = predictor.predict({"x0": inputs[:, 0], "x1": inputs[:, 1]}, "table")
    assert fitted.scale_.values(np.log(found.latency_s)) == pytest.approx(fitted.predict(inputs))


def test_predicting_changes_nothing(fitted: BudgetedRegressor, inputs: Array) -> None:
    before = dict(vars(fitted))
    fitted.predict(inputs)
    assert vars(fitted) == before


def test_an_impossible_budget_is_refused_with_the_nearest_possible_one(inputs: Array, signed: Array) -> None:
    with pytest.raises(ValueError, match=r"no selection keeps within 0.5 kB. The nearest possible: "):
        BudgetedRegressor(max_kb=0.5, **QUICK).fit(inputs, signed)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"mode": "fats"}, "Did you mean 'fast'"),
        ({"max_us": -1.0}, "max_us must be above 0"),
        ({"families": ["rigde"]}, "Did you mean 'ridge'"),
        ({"settings": {"ridge": {"aplha": 1.0}}}, "Did you mean 'alpha'"),
    ],
)
def test_a_wrong_parameter_is_told(wrong: dict[str, Any], sentence: str, inputs: Array, signed: Array) -> None:
    with pytest.raises(ValueError, match=sentence):
        BudgetedRegressor(**{**QUICK, **wrong}).fit(inputs, signed)


def test_it_is_cross_validated_in_a_pipeline(inputs: Array, signed: Array) -> None:
    model = make_pipeline(StandardScaler(), BudgetedRegressor(families=["ridge"], seconds=1.0))
    assert cross_val_score(clone(model), inputs, signed, cv=2).min() > 0.5


def test_the_checks_of_scikit_learn_that_fit_nothing_hold() -> None:
    for check in ("parameters_default_constructible", "no_attributes_set_in_init", "estimators_unfitted"):
        getattr(estimator_checks, f"check_{check}")("BudgetedRegressor", BudgetedRegressor(**QUICK))
