"""What ships: inside the range the form alone, beyond it one of four ways, everywhere with an interval."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from medn.core.intervals import LEVEL, Interval, Spread
from medn.core.learn_range import learn_range
from medn.core.ranges import MeasuredRange
from medn.core.table import Array, Schema, Table
from medn.deployed.beyond import BOUNDED, EDGE, HELD, LEEWAY, OWN, WAYS
from medn.deployed.deployed import Deployed
from medn.deployed.packing import pack_deployed, unpack_deployed
from medn.regressors.form import Form, Parts, forms
from tests.deployed.calibrating import UNCALIBRATED, calibrated

SCHEMA = Schema(("size", "flops", "moved_bytes", "function"), {"function": ("relu", "tanh", "gelu")})


def law(inputs: Array) -> Array:
    """A made-up device: overhead, a peak and a bandwidth."""
    return np.asarray(5e-6 + np.maximum(inputs[:, 1] / 5e10, inputs[:, 2] / 1e10))


def made_up(rows: int, seed: int, smallest: float = 16, largest: float = 512) -> Table:
    random = np.random.default_rng(seed)
    size = np.exp(random.uniform(np.log(smallest), np.log(largest), rows))
    inputs = np.column_stack([size, 2 * size**3, 12 * size**2, random.integers(0, 2, rows)])
    inputs = inputs.astype(np.float32).astype(np.float64)
    return Table(SCHEMA, inputs, law(inputs), np.arange(rows).astype(str))


@forms.register
class TrueLaw(Form):
    name = "test-true-law"

    def log_value(self, inputs: Array) -> Array:
        return np.log(law(inputs))

    def parts(self) -> Parts:
        return Parts(self.name)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> TrueLaw:
        return cls()


@dataclass(frozen=True, eq=False)
class Nearest(Form):
    """Flat beyond what it has seen, as a forest is."""

    name = "test-nearest"
    train: Table

    def log_value(self, inputs: Array) -> Array:
        gaps = np.abs(np.log(inputs[:, 1])[:, None] - np.log(self.train.inputs[:, 1]))
        return np.asarray(np.log(self.train.target[gaps.argmin(axis=1)]))

    def parts(self) -> Parts:
        raise NotImplementedError("is never written")

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Nearest:
        raise NotImplementedError("is never read")


class Wild(TrueLaw):
    """Right inside, and a hundred times too long as soon as a layer is larger."""

    name = "test-wild"

    def log_value(self, inputs: Array) -> Array:
        return np.asarray(np.log(law(inputs)) + np.where(inputs[:, 0] > 513, np.log(100.0), 0.0))


@pytest.fixture(scope="module")
def learned() -> MeasuredRange:
    return learn_range(made_up(400, 0), made_up(100, 1))


def deployed(form: Form, known: MeasuredRange, way: str = HELD, roofline: Form | None = None) -> Deployed:
    return Deployed(form, known, UNCALIBRATED, {}, way, roofline)


def test_held_stays_near_the_law_where_a_forest_is_flat(learned: MeasuredRange) -> None:
    flat, outside = Nearest(made_up(400, 0)), made_up(200, 6, 560, 512 * 4)
    held = deployed(flat, learned).answer(outside.inputs)
    assert not held.inside.any()
    assert (np.abs(held.value / outside.target - 1) < 0.3).all()
    assert np.median(flat.predict(outside.inputs) / outside.target) < 0.5


def test_a_fitted_roofline_knows_the_overhead_too(learned: MeasuredRange) -> None:
    rows = made_up(200, 6, 4, 2048)
    found = deployed(TrueLaw(), learned, roofline=TrueLaw()).answer(rows.inputs)
    np.testing.assert_array_equal(found.inside, learned.in_range(rows.inputs))
    np.testing.assert_allclose(found.value, rows.target, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_predictions_inside_are_left_alone(learned: MeasuredRange, way: str) -> None:
    rows = made_up(50, 7)
    inside = learned.in_range(rows.inputs)
    found = deployed(TrueLaw(), learned, way).predict(rows.inputs[inside])
    np.testing.assert_allclose(found, rows.target[inside], rtol=1e-12)


def test_own_is_what_the_form_says(learned: MeasuredRange) -> None:
    rows = made_up(200, 6, 4, 2048)
    np.testing.assert_allclose(deployed(TrueLaw(), learned, OWN).predict(rows.inputs), rows.target, rtol=1e-12)


def test_edge_does_not_grow_with_the_work(learned: MeasuredRange) -> None:
    rows = made_up(50, 6, 1000, 2048).inputs
    expected = law(learned.clip(rows))
    np.testing.assert_allclose(deployed(TrueLaw(), learned, EDGE).predict(rows), expected, rtol=1e-12)


def test_bounded_lets_no_form_run_away_from_the_work(learned: MeasuredRange) -> None:
    rows = made_up(100, 6, 560, 2048)
    wild, bounded = (deployed(Wild(), learned, way).predict(rows.inputs) / rows.target for way in (OWN, BOUNDED))
    assert wild.min() > 99
    assert bounded.max() < 3 * np.exp(LEEWAY)
    calm = deployed(TrueLaw(), learned, BOUNDED).predict(rows.inputs)
    np.testing.assert_allclose(calm, rows.target, rtol=1e-12)


def test_the_growth_of_a_roofline_is_bounded_by_that_of_the_work(learned: MeasuredRange) -> None:
    rows = made_up(100, 6, 560, 2048)
    held = deployed(TrueLaw(), learned, roofline=Wild()).predict(rows.inputs)
    assert (held / rows.target).max() < 3 * np.exp(LEEWAY)


@pytest.mark.parametrize("way", WAYS)
def test_a_category_that_was_not_learned_is_taken_for_the_usual_one(learned: MeasuredRange, way: str) -> None:
    class ByCategory(TrueLaw):
        def log_value(self, inputs: Array) -> Array:
            assert set(inputs[:, 3]) <= {0.0, 1.0}
            return super().log_value(inputs)

    rows = made_up(20, 4, 20, 400).inputs
    rows[:, 3] = -1.0
    found = deployed(ByCategory(), learned, way).answer(rows)
    assert not found.inside.any()
    np.testing.assert_allclose(found.value, law(rows), rtol=1e-12)


def test_without_work_columns_the_edge_is_all_that_is_held() -> None:
    class Size(TrueLaw):
        def log_value(self, inputs: Array) -> Array:
            return np.log(inputs[:, 0])

    schema = Schema(("size",))
    train = Table(schema, np.arange(1.0, 51.0)[:, None], np.arange(1.0, 51.0), np.arange(50).astype(str))
    known = learn_range(train, train)
    beyond = np.array([[500.0]])
    assert deployed(Size(), known).predict(beyond).tolist() == pytest.approx([50.0])
    assert deployed(Size(), known, BOUNDED).predict(beyond).tolist() == pytest.approx([500.0])


def test_without_work_columns_a_latency_grows_at_most_as_all_sizes_multiplied() -> None:
    class Power(TrueLaw):
        def log_value(self, inputs: Array) -> Array:
            return 9 * np.log(inputs[:, 0])

    schema = Schema(("size", "share"))
    inputs = np.column_stack([np.arange(1.0, 51.0), np.linspace(0.1, 0.9, 50)])
    train = Table(schema, inputs, np.arange(1.0, 51.0), np.arange(50).astype(str))
    known = learn_range(train, train)
    shipped = deployed(Power(), known, BOUNDED)
    beyond = np.array([[500.0, 0.5], [0.001, 0.5]])
    growth = np.exp(np.log(shipped.predict(beyond)) - Power().log_value(known.clip(beyond)))
    assert growth == pytest.approx([2 * 500.0 / known.clip(beyond)[0, 0], 0.5], rel=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_packed_answers_alike(learned: MeasuredRange, way: str) -> None:
    noisy = replace(made_up(300, 3), target=made_up(300, 3).target * np.exp(np.linspace(-0.2, 0.2, 300)))
    made = calibrated(deployed(TrueLaw(), learned, way, TrueLaw()), noisy, noisy)
    made = replace(made, interval=replace(made.interval, widening=0.3), constants={"threads": 1, "cache": "hot"})
    facts, arrays = pack_deployed(made)
    again = unpack_deployed(json.loads(json.dumps(facts)), arrays)
    rows = made_up(200, 6, 1, 4096).inputs
    for before, after in zip(made.answer(rows), again.answer(rows), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-12)
    assert (again.constants, again.schema, again.interval) == (made.constants, made.schema, made.interval)


def test_what_an_earlier_version_packed_is_held_and_as_wide_as_it_was(learned: MeasuredRange) -> None:
    interval = Interval(LEVEL, 1.0, 40, Spread(-9.0, 1.0, (-2.0, 0.1, 0.05, 0.4), -3.0, 1.0), 40)
    facts, arrays = pack_deployed(replace(deployed(TrueLaw(), learned), interval=interval))
    for name in ("way", "roofline"):
        del facts[name]
    for name in ("calibration_layers", "widening"):
        del facts["interval"][name]
    facts["range"] = learned.as_json()
    old = unpack_deployed(facts, {name: array for name, array in arrays.items() if not name.startswith("range.")})
    rows = made_up(50, 6, 600, 4096).inputs
    found = old.answer(rows)
    assert old.way == HELD
    expected = old.interval.bounds(found.value, learned.distance(rows))
    np.testing.assert_allclose((found.low, found.high), expected)
