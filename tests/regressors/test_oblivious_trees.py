"""Trees that ask one question a level decide alike in every way they are evaluated, and as CatBoost does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.metrics import score
from medn.core.table import Array, Table
from medn.regressors import thresholds
from medn.regressors.families.catboost import _tree
from medn.regressors.form import restore
from medn.regressors.forms.oblivious_trees import NEVER, ObliviousTree, ObliviousTrees
from medn.regressors.regressor import Effort, Fitted, regressors, usual_families

WIDTH = 4


def random_tree(random: np.random.Generator, levels: int) -> ObliviousTree:
    """Few different borders, so that inputs often meet them."""
    borders = random.integers(8, size=levels).astype(float).tolist()
    return random.integers(WIDTH, size=levels).tolist(), borders, random.normal(size=2**levels).tolist()


def leaf_of(tree: ObliviousTree, row: Array) -> float:
    feature, border, leaves = tree
    return leaves[sum((row[asked] > border[level]) << level for level, asked in enumerate(feature))]


def random_trees(seed: int, levels: list[int]) -> tuple[ObliviousTrees, Array, Array]:
    """Trees, rows of inputs, and what the trees say of them by their definition."""
    random = np.random.default_rng(seed)
    trees = [random_tree(random, each) for each in levels]
    inputs = random.integers(-1, 9, (40, WIDTH)) + random.choice([0.0, 0.5], (40, WIDTH))
    sums = np.array([0.5 + sum(leaf_of(tree, row) for tree in trees) for row in inputs])
    return ObliviousTrees.from_trees(trees, base=0.5, width=WIDTH), inputs, sums


ANY_TREES = given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 10), min_size=1, max_size=6))


@settings(max_examples=40, deadline=None)
@ANY_TREES
def test_many_rows_lead_to_their_leaves(seed: int, levels: list[int]) -> None:
    form, inputs, expected = random_trees(seed, levels)
    assert form.log_value(inputs) == pytest.approx(expected, abs=1e-5)


@settings(max_examples=20, deadline=None)
@ANY_TREES
def test_a_single_row_leads_to_its_leaves(seed: int, levels: list[int]) -> None:
    form, inputs, expected = random_trees(seed, levels)
    assert [form.one(row) for row in inputs] == pytest.approx(expected, abs=1e-5)


def test_trees_whose_table_is_too_large_predict_the_same_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    form, inputs, expected = random_trees(3, [6, 2, 9, 0])
    monkeypatch.setattr(thresholds, "LARGEST_TABLE", 10)
    many = np.tile(inputs, (20, 1))
    assert form.log_value(many) == pytest.approx(np.tile(expected, 20), abs=1e-5)
    assert form.one(inputs[0]) == pytest.approx(expected[0], abs=1e-5)


def test_the_largest_input_is_above_no_border_of_a_level_that_a_tree_lacks() -> None:
    form = ObliviousTrees.from_trees([([0], [1.0], [10.0, 20.0]), ([0, 1], [0.0, 0.0], [0.0] * 4)], 0.0, 2)
    assert form.log_value(np.full((1, 2), float(NEVER))).tolist() == [20.0]


def test_restored_trees_are_the_same() -> None:
    form, inputs, _ = random_trees(4, [3, 5])
    assert np.array_equal(restore(form.parts(), WIDTH).log_value(inputs), form.log_value(inputs))


def with_array(name: str, change: Callable[[Array], Any]) -> Callable[[ObliviousTrees], Any]:
    def damaged(form: ObliviousTrees) -> Any:
        parts = form.parts()
        return replace(parts, arrays={**parts.arrays, name: change(parts.arrays[name])})

    return damaged


def with_fact(name: str, value: Any) -> Callable[[ObliviousTrees], Any]:
    return lambda form: replace(form.parts(), facts={**form.parts().facts, name: value})


def enormous(array: Array) -> Array:
    """Takes no memory."""
    return np.broadcast_to(array[:1, :1], (80, 16))


DAMAGE = [
    (with_array("feature", lambda array: array + WIDTH), "the features of oblivious trees must be between 0 and 3"),
    (with_array("feature", lambda array: array - 9), "the features of oblivious trees must be between 0 and 3"),
    (with_array("feature", lambda array: array[0]), "from 1 to 16 levels"),
    (with_array("feature", lambda array: np.tile(array, (1, 9))), "from 1 to 16 levels"),
    (with_array("feature", lambda array: array[:, :0]), "from 1 to 16 levels"),
    (with_array("feature", lambda array: array[:0]), "from 1 to 5,000,000 leaves"),
    (with_array("feature", enormous), "from 1 to 5,000,000 leaves"),
    (with_array("feature", lambda array: array.astype(float)), "must be an array of whole numbers"),
    (with_array("border", lambda array: array * np.nan), "the borders of oblivious trees must be between"),
    (with_array("border", lambda array: array[:, 1:]), "the borders of oblivious trees must have the shape"),
    (with_array("leaves", lambda array: array[:, 1:]), "the leaves of oblivious trees must have the shape"),
    (with_array("leaves", lambda array: array + np.inf), "the leaves of oblivious trees must be between"),
    (with_fact("base", float("nan")), "the base of oblivious trees must be a number"),
    (with_fact("width", WIDTH + 1), "the inputs of oblivious trees must be a whole number"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
def test_damaged_parts_are_refused_in_a_sentence(damage: Callable[[ObliviousTrees], Any], reason: str) -> None:
    form, _, _ = random_trees(5, [2, 2])
    with pytest.raises(ValueError, match=reason):
        restore(damage(form), WIDTH)


@pytest.fixture(scope="module")
def grown(train: Table, validation: Table) -> Fitted:
    pytest.importorskip("catboost")
    return fit(train, validation)


def fit(train: Table, validation: Table, report: Callable[[int, float], None] | None = None, **changes: Any) -> Fitted:
    family = regressors["catboost"]
    effort = Effort(seconds=20.0, report=report or (lambda step, error: None))
    return family.fit(train, validation, {**family.defaults, "most_trees": 60, **changes}, effort)


def exported(grown: Fitted) -> ObliviousTrees:
    form = grown.export()
    assert isinstance(form, ObliviousTrees)
    return form


def test_they_decide_as_catboost_at_every_border(grown: Fitted, train: Table) -> None:
    form, random = exported(grown), np.random.default_rng(0)
    inputs = train.inputs[random.integers(0, len(train), 400)].astype(np.float32)
    for feature in range(inputs.shape[1]):
        borders = form.border[(form.feature == feature) & (form.border < NEVER)]
        if len(borders):
            chosen = borders[random.integers(0, len(borders), len(inputs))]
            towards = random.choice(np.array([-np.inf, np.inf], dtype=np.float32), len(inputs))
            inputs[:, feature] = np.where(random.random(len(inputs)) < 0.5, chosen, np.nextafter(chosen, towards))
    assert form.predict(inputs.astype(float)) == pytest.approx(grown.predict(inputs.astype(float)), rel=1e-5)


@pytest.mark.parametrize("changes", [{"depth": 1}, {"depth": 10}, {"border_count": 1024}, {"random_strength": 1.0}])
def test_trees_of_any_settings_are_exported(changes: dict[str, Any], train: Table, validation: Table) -> None:
    pytest.importorskip("catboost")
    grown = fit(train, validation, most_trees=20, **changes)
    assert exported(grown).predict(validation.inputs) == pytest.approx(grown.predict(validation.inputs), rel=1e-5)


def test_the_reported_error_is_that_of_the_validation_rows(train: Table) -> None:
    """Of these and of those learned from there are as many, so that they cannot be told apart by their number."""
    pytest.importorskip("catboost")
    learned, checked = train.take(np.arange(150)), train.take(np.arange(150, 300))
    errors: list[float] = []
    grown = fit(learned, checked, lambda step, error: errors.append(error), most_trees=6)
    assert errors[-1] == pytest.approx(score(grown.predict(checked.inputs), checked.target).mape)


def test_equal_latencies_are_learned(train: Table) -> None:
    pytest.importorskip("catboost")
    same = replace(train, target=np.full(len(train), 2e-3))
    assert fit(same, same).export().predict(train.inputs[:3]) == pytest.approx(2e-3)


def test_without_catboost_its_families_name_its_extra_and_are_trained_only_when_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    for name in ("catboost", "catboost_on_roofline"):
        assert name not in usual_families()
        assert regressors[name].missing() == f"{name} needs catboost: pip install 'medn[catboost]'"


def test_a_tree_that_asks_nothing_is_one_leaf() -> None:
    assert _tree({"splits": None, "leaf_values": [0.5]}, 2.0) == ([], [], [1.0])
