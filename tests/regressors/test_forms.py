"""Deployed forms against the libraries whose computation they repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.errors import UsageError
from medn.core.table import Array, Schema, Table
from medn.regressors.distances import Points
from medn.regressors.encoding import Encoding
from medn.regressors.form import Parts, restore
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.constant import Constant
from medn.regressors.forms.nearest import Nearest
from medn.regressors.forms.roofline import Roofline
from medn.regressors.forms.trees import Trees, rounded_down, tree
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, Fitted, regressors

TREE_FAMILIES = ("decision_tree", "random_forest", "extra_trees", "hist_boosting", "lightgbm", "xgboost")
FITTED: dict[str, Fitted] = {}


@pytest.fixture(params=TREE_FAMILIES)
def grown(request: pytest.FixtureRequest, train: Table, validation: Table) -> Fitted:
    name = request.param
    if regressors[name].missing():
        pytest.skip(str(regressors[name].missing()))
    if name not in FITTED:
        FITTED[name] = regressors[name].fit(train, validation, regressors[name].defaults, Effort(seconds=2.0))
    return FITTED[name]


def exported_trees(grown: Fitted) -> Trees:
    form = grown.export()
    assert isinstance(form, Trees)
    return form


def at_thresholds(form: Trees, table: Table, rows: int = 400) -> Array:
    """Rows whose values are thresholds of the trees, and their neighbours among the float32."""
    random = np.random.default_rng(0)
    inputs = table.inputs[random.integers(0, len(table), rows)].astype(np.float32)
    for feature in range(inputs.shape[1]):
        thresholds = form.number[form.feature == feature]
        if len(thresholds):
            chosen = thresholds[random.integers(0, len(thresholds), rows)]
            towards = random.choice(np.array([-np.inf, np.inf], dtype=np.float32), rows)
            inputs[:, feature] = np.where(random.random(rows) < 0.5, chosen, np.nextafter(chosen, towards))
    return inputs.astype(np.float64)


def test_trees_decide_as_their_library_at_every_threshold(grown: Fitted, train: Table) -> None:
    form = exported_trees(grown)
    inputs = at_thresholds(form, train)
    assert form.predict(inputs) == pytest.approx(grown.predict(inputs), rel=1e-5)


OBJECTIVES = [
    *(("lightgbm", "l1"), ("lightgbm", "huber"), ("xgboost", "l1"), ("catboost", "l1")),
    ("hist_boosting", "absolute_error"),
]


@pytest.mark.parametrize(("name", "objective"), OBJECTIVES)
def test_trees_of_every_objective_are_exported(name: str, objective: str, train: Table, validation: Table) -> None:
    family = regressors[name]
    if family.missing():
        pytest.skip(str(family.missing()))
    setting = "loss" if "loss" in family.defaults else "objective"
    fitted = family.fit(train, validation, {**family.defaults, setting: objective}, Effort(seconds=1.0))
    assert fitted.export().predict(validation.inputs) == pytest.approx(fitted.predict(validation.inputs), rel=1e-5)


def test_trees_are_walked_to_the_leaves_that_they_predict(grown: Fitted, train: Table) -> None:
    form = exported_trees(grown)
    inputs = np.vstack([at_thresholds(form, train), np.full((1, train.inputs.shape[1]), 3e38), 0 * train.inputs[:1]])
    assert form.base + form.walk(inputs) == pytest.approx(form.log_value(inputs), abs=1e-5)


def test_trees_take_ten_bytes_a_node(grown: Fitted) -> None:
    form = exported_trees(grown)
    assert form.parts().size_bytes < 10 * len(form.feature) + 4 * len(form.roots) + 100


def test_a_block_of_rows_and_the_next_are_walked_alike(grown: Fitted, train: Table) -> None:
    form = exported_trees(grown)
    many = np.tile(train.inputs, (5, 1))
    assert np.array_equal(form.base + form.walk(many)[-len(train) :], form.base + form.walk(train.inputs))


@given(st.floats(-(2.0**99), 2.0**99), st.floats(-(2.0**99), 2.0**99, width=32))
def test_a_rounded_threshold_asks_the_same_of_every_float32(threshold: float, value: float) -> None:
    assert (value <= threshold) == (value <= float(rounded_down(threshold)))


def test_a_tree_is_put_in_preorder() -> None:
    feature, number, right = tree(
        [0, -1, 1, -1, -1], [0.5, 0, 7, 0, 0], [2, -1, 4, -1, -1], [1, -1, 3, -1, -1], range(5)
    )
    assert feature.tolist() == [0, 1, -1, -1, -1]
    assert number.tolist() == [0.5, 7, 4, 3, 1]
    assert right.tolist() == [4, 3, 0, 0, 0]


def test_a_tree_of_one_leaf_is_a_constant() -> None:
    form = Trees.from_trees([tree([-1], [0.0], [-1], [-1], [2.5])], base=1.0, width=2)
    assert form.log_value(np.zeros((3, 2))).tolist() == [3.5] * 3
    assert (form.base + form.walk(np.zeros((3, 2)))).tolist() == [3.5] * 3


def test_nearest_is_the_nearest_neighbours_of_scikit_learn(train: Table, held_out: Table) -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    encoding = Encoding.fit(train.schema, train.inputs)
    points, logs = encoding.transform(train.inputs).astype(np.float32), np.log(train.target)
    form = Nearest(encoding, np.ones(encoding.width), points, logs.astype(np.float32), neighbours=4, power=1.0)
    native = neighbors.KNeighborsRegressor(4, weights="distance").fit(points.astype(np.float64), logs)
    expected = native.predict(encoding.transform(held_out.inputs))
    assert form.log_value(held_out.inputs) == pytest.approx(expected, rel=1e-5)


def test_nearest_gives_a_measured_point_its_own_value(train: Table) -> None:
    encoding = Encoding.fit(train.schema, train.inputs)
    points, logs = encoding.transform(train.inputs).astype(np.float32), np.log(train.target).astype(np.float32)
    form = Nearest(encoding, np.ones(encoding.width), points, logs, neighbours=5, power=4.0)
    assert form.log_value(train.inputs) == pytest.approx(logs, abs=1e-3)


def test_distances_of_many_queries_are_those_of_each() -> None:
    random = np.random.default_rng(0)
    points, queries = random.normal(size=(50, 3)).astype(np.float32), random.normal(size=(600, 3))
    nearest = Points(points).map(queries, lambda squared: squared.min(axis=1))
    expected = ((queries[:, None] - points) ** 2).sum(axis=2).min(axis=1)
    assert nearest == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["linear", "ridge", "nearest", "svr"])
def test_one_row_of_a_formula_is_what_it_is_among_others(name: str, train: Table, held_out: Table) -> None:
    family = regressors[name]
    if family.missing():
        pytest.skip(str(family.missing()))
    form = family.fit(train, train, family.defaults, Effort(seconds=2.0)).export()
    assert [form.one(row) for row in held_out.inputs[:20]] == pytest.approx(form.log_value(held_out.inputs[:20]))


def test_affine_never_falls_below_its_floor() -> None:
    form = Affine(np.array([1], dtype=np.int32), np.array([2.0]), constant=0.0, floor=1e-6)
    assert form.predict(np.array([[9.0, 0.0], [9.0, 3.0]])) == pytest.approx([1e-6, 6.0])


def test_a_weighted_sum_is_a_mean_of_logarithms() -> None:
    form = WeightedSum([Constant(np.log(1.0)), Constant(np.log(4.0))], [0.5, 0.5])
    assert restore(form.parts(), 1).predict(np.zeros((2, 1))) == pytest.approx([2.0, 2.0])


def test_a_sum_without_weights_multiplies_factors() -> None:
    form = WeightedSum([Constant(np.log(3.0)), Constant(np.log(2.0))])
    assert form.predict(np.zeros((1, 1))) == pytest.approx([6.0])
    assert form.parts().size_bytes > sum(inner.size_bytes for inner in form.parts().inner)


def test_a_constant_is_read_as_it_was_saved_before_other_quantities_than_latency() -> None:
    assert restore(Parts("constant", {"log_latency": np.log(3.0)}), 1).predict(np.zeros((1, 1))) == pytest.approx([3.0])


def test_an_unknown_form_is_named_with_its_near_miss() -> None:
    with pytest.raises(UsageError, match=r"no deployed form named 'tree'\. Did you mean 'trees'"):
        restore(Parts("tree"), 1)


@pytest.fixture(scope="module")
def roofline(train: Table, validation: Table) -> Roofline:
    return fit_roofline(train)


def fit_roofline(train: Table) -> Roofline:
    pytest.importorskip("scipy")
    family = regressors["roofline"]
    form = family.fit(train, train, family.defaults, Effort()).export()
    assert isinstance(form, Roofline)
    return form


WORK = ("flops", "moved_bytes")


@pytest.mark.parametrize("column", WORK)
def test_more_work_never_takes_less_time(column: str, roofline: Roofline, held_out: Table) -> None:
    inputs = held_out.inputs.copy()
    place = held_out.schema.index(column)
    steps = []
    for factor in np.geomspace(1e-4, 1e4, 60):
        inputs[:, place] = held_out.inputs[:, place] * factor
        steps.append(roofline.log_value(inputs))
    assert (np.diff(steps, axis=0) >= -1e-12).all()
    assert (steps[-1] > steps[0]).all()


def test_beyond_the_measured_range_the_roofline_grows_with_the_work(roofline: Roofline, held_out: Table) -> None:
    places = [held_out.schema.index(name) for name in WORK]
    inputs = held_out.inputs.copy()
    inputs[:, places] *= 1e5
    further = inputs.copy()
    further[:, places] *= 10
    assert roofline.predict(further) / roofline.predict(inputs) == pytest.approx(10, rel=0.01)


def test_the_share_of_the_peak_stays_between_zero_and_one(roofline: Roofline, held_out: Table) -> None:
    alone = held_out.inputs.copy()
    alone[:, held_out.schema.index("utilization")] = 0.0
    rates = roofline.columns.log_work(alone) - roofline.log_value(alone)[:, None]
    assert (rates <= roofline.law.peak[0]).all()


def test_a_busier_device_is_slower(roofline: Roofline, held_out: Table) -> None:
    inputs = np.repeat(held_out.inputs[:1], 5, axis=0)
    inputs[:, held_out.schema.index("utilization")] = [0.0, 0.2, 0.5, 0.9, 1.0]
    assert (np.diff(roofline.predict(inputs)) > 0).all()


def test_a_roofline_alone_is_close_on_a_roofline_shaped_device(roofline: Roofline, held_out: Table) -> None:
    errors = np.abs(roofline.predict(held_out.inputs) / held_out.target - 1)
    assert np.median(errors) < 0.1


@pytest.mark.parametrize("is_better_shaped", [True, False])
def test_validation_rows_decide_whether_other_inputs_move_the_roofline(
    is_better_shaped: bool, train: Table, held_out: Table
) -> None:
    """In the training rows latency grows with the input size beside the work; in the others it may not."""
    pytest.importorskip("scipy")
    family, place = regressors["roofline"], train.schema.index("in_h")

    def tilted(table: Table) -> Table:
        return replace(table, target=table.target * (table.inputs[:, place] / 30) ** 2)

    validation = tilted(held_out) if is_better_shaped else held_out
    form = family.fit(tilted(train), validation, family.defaults, Effort()).export()
    assert isinstance(form, Roofline)
    assert form.law.weights.any() == is_better_shaped


@pytest.fixture(scope="module")
def two_devices(latency_table: Callable[..., Table]) -> Table:
    """The second device takes three times as long; a third one was never measured."""
    table = latency_table(400)
    device = np.arange(len(table)) % 2
    schema = Schema((*table.schema.names, "device"), {**table.schema.categories, "device": ("fast", "slow", "unseen")})
    inputs = np.column_stack([table.inputs, device])
    return replace(table, schema=schema, inputs=inputs, target=table.target * np.where(device == 1, 3.0, 1.0))


def test_each_device_has_a_roofline_of_its_own(two_devices: Table) -> None:
    form = fit_roofline(two_devices)
    on_fast, on_slow = two_devices.inputs.copy(), two_devices.inputs.copy()
    on_fast[:, -1], on_slow[:, -1] = 0, 1
    assert np.median(form.predict(on_slow) / form.predict(on_fast)) == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("code", [2, -1])
def test_an_unmeasured_device_is_taken_for_a_typical_one(code: int, two_devices: Table) -> None:
    form = fit_roofline(two_devices)
    inputs = np.repeat(two_devices.inputs[:20], 3, axis=0)
    inputs[:, -1] = np.tile([0, code, 1], 20)
    fast, typical, slow = form.predict(inputs).reshape(20, 3).T
    assert np.median(fast) < np.median(typical) < np.median(slow)
