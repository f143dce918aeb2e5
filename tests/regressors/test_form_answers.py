"""What deployed forms answer: for one row and for many, from several threads, and their gradients."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.table import Array, Table
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form
from medn.regressors.forms.constant import Constant
from medn.regressors.forms.network import STEPS, NetworkForm
from medn.regressors.forms.oblivious_trees import ObliviousTrees
from medn.regressors.forms.roofline import Columns, Law, Roofline
from medn.regressors.forms.trees import Trees
from medn.regressors.forms.weighted_sum import WeightedSum

STEP = 1e-6
FORMS = ("network", "roofline", "shapeless roofline", "sum", "constant", "trees", "oblivious trees", "forest")


def make_network(table: Table) -> NetworkForm:
    random = np.random.default_rng(0)
    encoding = Encoding.fit(table.schema, table.inputs)
    numeric = len(table.schema.numeric)

    def weights(*shape: int) -> Array:
        return random.normal(0, 0.3, shape).astype(np.float32)

    steps = [
        ("waves", {"frequencies": weights(numeric, 2)}),
        ("dense", {"weight": weights(encoding.width + 4 * numeric, 16), "bias": weights(16)}),
        ("residual", {"a": weights(16, 8), "b": weights(8), "c": weights(8, 16), "d": weights(16)}),
        ("silu", {}),
        ("dense", {"weight": weights(16, 1), "bias": weights(1)}),
    ]
    return NetworkForm(encoding, steps, (-0.5, 50.0))


def make_roofline(table: Table, is_shaped: bool = True) -> Roofline:
    random = np.random.default_rng(1)
    encoding, columns = Encoding.fit(table.schema, table.inputs), Columns.find(table.schema)
    measured = np.hstack([encoding.transform(table.inputs), columns.log_work(table.inputs)])
    # Tighter than what is asked for, so that some of it lies outside.
    bounds = np.quantile(measured, [0.2, 0.8], axis=0)
    weights = random.normal(0, 0.3, (encoding.width, 2)) * is_shaped
    one_device = np.array([[24.0, 22.0]] * 2), np.array([-11.0] * 2)
    law = Law(*one_device, np.array([-9.0, -8.0]), np.array([0.5, 0.6]), weights, sharpness=3.0, contention=0.7)
    return Roofline(columns, encoding, bounds, law)


def make_trees(leaves: int, count: int, table: Table) -> Trees:
    """Chains that ask for one feature after the other."""
    random = np.random.default_rng(2)
    grown = []
    for _ in range(count):
        feature, number = np.full(2 * leaves - 1, -1, np.int16), random.normal(size=2 * leaves - 1).astype(np.float32)
        right = np.zeros(2 * leaves - 1, np.int32)
        asked = np.arange(0, 2 * leaves - 2, 2)
        feature[asked] = random.integers(0, table.inputs.shape[1], leaves - 1)
        number[asked] = table.inputs[random.integers(0, len(table), leaves - 1), feature[asked]]
        right[asked] = asked + 2
        grown.append((feature, number, right))
    return Trees.from_trees(grown, base=0.0, width=table.inputs.shape[1])


def make_oblivious_trees(levels: int, count: int, table: Table) -> ObliviousTrees:
    random = np.random.default_rng(2)
    feature = random.integers(0, table.inputs.shape[1], (count, levels)).astype(np.int16)
    border = table.inputs[random.integers(0, len(table), (count, levels)), feature].astype(np.float32)
    leaves = random.normal(size=(count, 2**levels)).astype(np.float32)
    return ObliviousTrees(feature, border, leaves, base=0.0, width=table.inputs.shape[1])


@pytest.fixture(params=FORMS, scope="module")
def form(request: pytest.FixtureRequest, train: Table) -> Form:
    if request.param == "forest":
        large = make_trees(400, 20, train)
        assert large.bits is None
        return large
    makers = {
        "network": lambda: make_network(train),
        "roofline": lambda: make_roofline(train),
        "shapeless roofline": lambda: make_roofline(train, is_shaped=False),
        "sum": lambda: WeightedSum([make_roofline(train), make_network(train)], [0.3, 0.7]),
        "constant": lambda: Constant(0.5),
        "trees": lambda: make_trees(20, 30, train),
        "oblivious trees": lambda: make_oblivious_trees(6, 30, train),
    }
    return makers[request.param]()


def precise(form: Form, inputs: Array) -> Array:
    """The logarithm of the latency in double precision, for differences of tiny steps."""
    if isinstance(form, WeightedSum):
        return sum(weight * precise(each, inputs) for each, weight in zip(form.forms, form.weights, strict=True))
    if not isinstance(form, NetworkForm):
        return form.log_value(inputs)
    values = form.encoding.transform(inputs)
    for name, arrays in form.steps:
        values = STEPS[name](values, *arrays.values())
    return np.clip(values[:, 0], *form.bounds)


@pytest.mark.parametrize("form", FORMS[:5], indirect=True)
def test_the_gradient_is_that_of_finite_differences(form: Form, train: Table, held_out: Table) -> None:
    # A little off the measured values and off zero: the bounds of the law lie there, and have no gradient.
    inputs = held_out.inputs * (1 + 1e-3 * np.random.default_rng(3).random(held_out.inputs.shape))
    inputs[:, train.schema.index("utilization")] += 0.01
    gradient = form.gradient(inputs)
    for name in train.schema.numeric:
        column = train.schema.index(name)
        step = STEP * np.maximum(np.abs(inputs[:, column]), 1.0)
        above, below = inputs.copy(), inputs.copy()
        above[:, column] += step
        below[:, column] -= step
        expected = (precise(form, above) - precise(form, below)) / (2 * step)
        # Both in the same unit: how much the logarithm changes when the input changes by its own size.
        size = step / STEP
        differences = np.abs(gradient[:, column] - expected) * size
        assert np.quantile(differences, 0.97) < 1e-6, name


def test_categories_have_no_gradient(train: Table) -> None:
    gradient = make_network(train).gradient(train.inputs)
    assert not gradient[:, train.schema.index("function")].any()


def test_a_network_at_its_bounds_has_no_gradient(train: Table) -> None:
    form = make_network(train)
    form.bounds = (5e3, 6e3)
    assert not form.gradient(train.inputs).any()


@pytest.mark.parametrize("form", ["trees"], indirect=True)
def test_a_form_without_gradient_says_so(form: Form, train: Table) -> None:
    with pytest.raises(UsageError, match="a form of the sort 'trees' has no gradient"):
        form.gradient(train.inputs)


def test_one_row_is_what_it_is_among_others(form: Form, held_out: Table) -> None:
    strange = np.vstack([held_out.inputs, held_out.inputs[:20] * 1e4, 0 * held_out.inputs[:1], -held_out.inputs[:1]])
    assert [form.one(row) for row in strange] == pytest.approx(form.log_value(strange), rel=1e-6, abs=1e-6)


def test_a_row_of_an_unknown_device_is_a_roofline_of_its_own(train: Table) -> None:
    known = make_roofline(train)
    columns = replace(known.columns, device=train.schema.index("function"))
    law = replace(known.law, peak=np.array([[24.0, 22.0], [20, 19], [22, 20]]), overhead=np.array([-11.0, -9, -10]))
    form = Roofline(columns, known.encoding, known.bounds, law)
    inputs = train.inputs[:30].copy()
    inputs[:, columns.device] = np.arange(30) % 4 - 1
    assert [form.one(row) for row in inputs] == pytest.approx(form.log_value(inputs))


def test_eight_threads_share_a_form(form: Form, held_out: Table) -> None:
    expected = form.log_value(held_out.inputs)
    alone = [form.one(row) for row in held_out.inputs]

    def ask(_: int) -> tuple[list[float], Array]:
        return [form.one(row) for row in held_out.inputs], form.log_value(held_out.inputs)

    with ThreadPoolExecutor(8) as threads:
        for ones, many in threads.map(ask, range(16)):
            assert ones == alone
            assert np.array_equal(many, expected)
