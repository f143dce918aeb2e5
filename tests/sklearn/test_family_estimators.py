"""Families of regressors as scikit-learn estimators: the checks of scikit-learn itself, targets, settings, pickling."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import medn.sklearn
from medn.core.errors import MednError
from medn.core.table import Array
from medn.regressors.regressor import regressors
from medn.sklearn import FamilyRegressor, MednRegressor

SMALL: dict[str, Any] = {"width": 16, "blocks": 1, "hidden": 8, "epochs": 2}
NEED_THE_WORK = [name for name in regressors if "roofline" in name or name == "linear"]
SLOW = [name for name in regressors if name.startswith("medn") or name == "mlp"]
NEED_SOURCES = [name for name in regressors if regressors[name].needs_sources]
OTHERS = [name for name in regressors if name not in [*NEED_THE_WORK, *SLOW, *NEED_SOURCES, "median"]]


@pytest.fixture(scope="module")
def inputs() -> Array:
    return np.random.default_rng(0).uniform(1, 100, (80, 3))


@pytest.fixture(scope="module")
def target(inputs: Array) -> Array:
    """Above 0."""
    return np.asarray(inputs[:, 0] * inputs[:, 1] + inputs[:, 2])


@parametrize_with_checks([FamilyRegressor("ridge"), FamilyRegressor("nearest")])
def test_what_scikit_learn_asks_of_estimators_holds(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("family", NEED_SOURCES)
def test_a_family_that_leans_on_other_devices_says_so(family: str, inputs: Array, target: Array) -> None:
    with pytest.raises(ValueError, match="it leans on what is known of other devices"):
        FamilyRegressor(family).fit(inputs, target)


@pytest.mark.parametrize("family", OTHERS)
def test_a_family_learns_a_plain_table(family: str, inputs: Array, target: Array) -> None:
    if regressors[family].missing():
        pytest.skip(f"{family} is not installed")
    model = FamilyRegressor(family, seconds=20).fit(inputs[:60], target[:60])
    assert model.score(inputs[60:], target[60:]) > 0.5


def test_a_family_that_needs_the_work_says_which_columns_tell_it(inputs: Array, target: Array) -> None:
    with pytest.raises(ValueError, match="needs the inputs 'flops' or 'moved_bytes'"):
        FamilyRegressor("roofline").fit(inputs, target)


def test_columns_named_as_the_work_are_the_work(inputs: Array) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(1e6 * inputs[:, :2], columns=["flops", "moved_bytes"])
    seconds = np.maximum(table["flops"] / 1e9, table["moved_bytes"] / 1e8)
    assert FamilyRegressor("roofline").fit(table, seconds).score(table, seconds) > 0.95


def test_what_predicts_is_the_deployed_form(inputs: Array, target: Array) -> None:
    model = FamilyRegressor("ridge").fit(inputs, target)
    assert model.form_.name == "polynomial"


@pytest.mark.parametrize("family", ["ridge", "extra_trees"])
def test_a_pickled_estimator_predicts_the_same(family: str, inputs: Array, target: Array) -> None:
    model = FamilyRegressor(family).fit(inputs, target)
    assert pickle.loads(pickle.dumps(model)).predict(inputs).tolist() == model.predict(inputs).tolist()


def test_the_network_is_fitted_pickled_and_searched_over(inputs: Array, target: Array) -> None:
    model = MednRegressor(**SMALL).fit(inputs, target)
    model.predict(inputs)
    assert pickle.loads(pickle.dumps(model)).predict(inputs) == pytest.approx(model.predict(inputs))
    search = GridSearchCV(MednRegressor(**SMALL), {"width": np.array([8, 16])}, cv=2).fit(inputs, target)
    assert search.best_params_["width"] in (8, 16)


def test_the_network_passes_the_checks_that_take_few_fits() -> None:
    from sklearn.utils import estimator_checks

    for check in ("fit_check_is_fitted", "dict_unchanged", "estimators_dtypes", "estimators_pickle", "supervised_y_2d"):
        getattr(estimator_checks, f"check_{check}")("MednRegressor", MednRegressor(**SMALL))


def test_an_estimator_is_cloned_with_its_settings() -> None:
    model = FamilyRegressor("ridge", {"alpha": 3.0}, target="plain")
    assert clone(model).get_params() == model.get_params()


def test_a_pipeline_is_cross_validated(inputs: Array, target: Array) -> None:
    scores = cross_val_score(make_pipeline(StandardScaler(), FamilyRegressor("ridge")), inputs, target, cv=3)
    assert scores.min() > 0.5


def test_families_and_their_settings_are_searched_over(inputs: Array, target: Array) -> None:
    grid = [{"family": ["nearest"]}, {"family": ["ridge"], "settings": [{"degree": 1}, {"degree": np.int64(2)}]}]
    assert GridSearchCV(FamilyRegressor(), grid, cv=3).fit(inputs, target).best_params_["family"] == "ridge"


@pytest.mark.parametrize(("target", "is_log"), [("auto", True), ("log", True), ("plain", False)])
def test_targets_above_0_are_learned_as_logarithms_unless_told_otherwise(
    target: str, is_log: bool, inputs: Array
) -> None:
    model = FamilyRegressor("ridge", target=target).fit(inputs, inputs[:, 0])
    assert model.scale_.is_log == is_log
    assert model.score(inputs, inputs[:, 0]) > 0.9


@pytest.mark.parametrize("shift", [-1000.0, -51.0, 0.0])
def test_targets_of_any_sign_are_learned_as_they_are(shift: float, inputs: Array) -> None:
    target = inputs[:, 0] - inputs[:, 0].min() + shift
    model = FamilyRegressor("ridge").fit(inputs, target)
    assert not model.scale_.is_log
    assert model.score(inputs, target) > 0.9


def test_the_unit_of_a_plain_target_does_not_matter(inputs: Array, target: Array) -> None:
    first, second = (FamilyRegressor("ridge", target="plain").fit(inputs, unit * target) for unit in (1.0, 1e9))
    assert second.predict(inputs) == pytest.approx(1e9 * first.predict(inputs))


def test_a_target_that_is_always_the_same_is_predicted(inputs: Array) -> None:
    assert FamilyRegressor("ridge", target="plain").fit(inputs, np.full(80, -3.0)).predict(inputs) == pytest.approx(
        -3.0
    )


def test_logarithms_of_0_are_refused_with_what_to_do(inputs: Array) -> None:
    with pytest.raises(ValueError, match=r"must be above 0 \(the lowest is 0\); 'plain' takes any number"):
        FamilyRegressor("ridge", target="log").fit(inputs, np.zeros(80))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (FamilyRegressor("rigde"), "Did you mean 'ridge'"),
        (FamilyRegressor("ridge", {"aplha": 1.0}), "Did you mean 'alpha'"),
        (FamilyRegressor("ridge", {"degree": 1.5}), "must be a whole number"),
        (FamilyRegressor("ridge", target="logs"), "Did you mean 'log'"),
        (MednRegressor(width=-1), "must be a finite number of 0 or more"),
    ],
)
def test_a_wrong_parameter_is_one_sentence_for_scikit_learn_and_for_medn(
    model: Any, sentence: str, inputs: Array, target: Array
) -> None:
    for kind in (ValueError, MednError):
        with pytest.raises(kind, match=sentence):
            model.fit(inputs, target)


def test_numbers_beyond_single_precision_are_refused(inputs: Array, target: Array) -> None:
    with pytest.raises(ValueError, match="X: numbers must lie within 1e"):
        FamilyRegressor("ridge").fit(1e35 * inputs, target)


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1e9, 1e297])
def test_targets_of_any_size_are_predicted(unit: float, inputs: Array) -> None:
    target = inputs[:, 0] - 50.0
    found = FamilyRegressor("nearest").fit(inputs, unit * target).predict(inputs)
    assert found / unit == pytest.approx(target, abs=0.01)


def test_targets_without_end_are_refused(inputs: Array) -> None:
    with pytest.raises(ValueError, match="y: targets must lie within 1e"):
        FamilyRegressor("ridge").fit(inputs, 1e304 * inputs[:, 0])


@pytest.mark.parametrize("model", [FamilyRegressor("nearest"), MednRegressor(**SMALL)])
def test_inputs_too_small_for_single_precision_count_as_0(model: Any, inputs: Array, target: Array) -> None:
    found = model.fit(1e-40 * inputs, target).predict(1e-40 * inputs)
    assert np.isfinite(found).all()


def test_a_library_that_fails_is_told_with_its_family(inputs: Array, target: Array) -> None:
    pytest.importorskip("catboost")
    with pytest.raises(ValueError, match="catboost: CatBoostError: "):
        FamilyRegressor("catboost").fit(np.ones((40, 2)), target[:40])


def test_rows_that_are_alike_stay_on_one_side_of_the_split(inputs: Array, target: Array) -> None:
    twice, values = np.repeat(inputs, 5, axis=0), np.repeat(target, 5)
    noisy = values * np.random.default_rng(1).lognormal(0, 0.3, len(values))
    model = FamilyRegressor("lightgbm").fit(twice, noisy)
    assert model.score(twice, values) > 0.5


def test_the_front_shows_its_estimators() -> None:
    assert dir(medn.sklearn) == ["BudgetedRegressor", "FamilyRegressor", "MednRegressor"]
