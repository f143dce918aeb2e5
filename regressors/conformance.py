"""What is true of every regressor, medn's own and those of plug-ins, as tests that anyone can run:

pytest --pyargs medn.regressors.conformance -k my_family
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from medn.core.metrics import score
from medn.core.table import Array, Schema, Table
from medn.regressors.families.roofline import plain_roofline
from medn.regressors.form import Parts, restore
from medn.regressors.forms.constant import Constant
from medn.regressors.regressor import Effort, Fitted, Regressor, regressors
from medn.regressors.shared_encoder import DeviceRows, SharedEncoder
from medn.regressors.sources import Sources, with_sources
from medn.regressors.views import View

SCHEMA = Schema(
    (
        *("in_channels", "out_channels", "in_h", "kernel_size", "batch_size", "utilization", "function"),
        *("flops", "bytes_read", "bytes_written", "parameter_bytes", "moved_bytes", "intensity"),
    ),
    {"function": ("relu", "tanh", "silu")},
)

SECONDS = 3.0
"""Enough for a few hundred rows, and little enough for every family to be fitted several times."""


def make_table(rows: int, seed: int = 0) -> Table:
    """Convolutions by the roofline of a small device, with steps at multiples of 16 and 5 % of noise."""
    random = np.random.default_rng(seed)
    in_channels, out_channels = random.integers(3, 256, rows), random.integers(8, 512, rows)
    size, kernel, batch = random.integers(4, 64, rows), random.choice([1, 3, 5], rows), 2 ** random.integers(0, 5, rows)
    busy = random.uniform(0, 0.8, rows) * (random.random(rows) > 0.5)
    function = random.integers(0, 3, rows)
    flops = 2.0 * batch * in_channels * out_channels * (size * kernel) ** 2
    parameters = 4.0 * in_channels * out_channels * kernel**2
    read, written = 4.0 * batch * in_channels * size**2 + parameters, 4.0 * batch * out_channels * size**2
    padded = -(-out_channels // 16) * 16 / out_channels
    seconds = 1e-5 * (1 + function) + np.maximum(flops * padded / 5e10, (read + written) / 8e9)
    seconds *= np.exp(random.normal(0, 0.05, rows)) / (1 - 0.8 * busy)
    columns = (in_channels, out_channels, size, kernel, batch, busy, function)
    analytic = (flops, read, written, parameters, read + written, flops / (read + written))
    inputs = np.column_stack([*columns, *analytic]).astype(np.float32).astype(np.float64)
    return Table(SCHEMA, inputs, seconds, np.array([f"layer {row}" for row in range(rows)]))


@cache
def made_up_sources() -> Sources:
    """Two devices that are like this one: a slower one, and one that small layers suit better."""
    table, same = make_table(100, seed=9), View.same(len(SCHEMA.names))
    known = [replace(table, target=target) for target in (3 * table.target, 0.1 * table.target**0.8)]
    forms = tuple(plain_roofline(each, Effort(seconds=SECONDS)) or Constant(0.0) for each in known)
    rows = DeviceRows(
        SCHEMA,
        np.concatenate([each.inputs for each in known]).astype(np.float32),
        np.log(np.concatenate([each.target for each in known])),
        np.repeat(np.arange(2, dtype=np.int16), len(table)),
        ("slow", "quick"),
    )
    return Sources(("slow", "quick"), forms, (same, same), (0, 1), SharedEncoder.fit(rows, SECONDS))


def make_known_table(rows: int, seed: int = 0) -> Table:
    """The same rows with what is known of them on other devices."""
    return with_sources(make_table(rows, seed), made_up_sources())


@pytest.fixture(scope="session")
def latency_table() -> Callable[..., Table]:
    """Makes a table of so many rows."""
    return make_known_table


@pytest.fixture(scope="session")
def train() -> Table:
    return make_known_table(300, seed=1)


@pytest.fixture(scope="session")
def validation() -> Table:
    return make_known_table(80, seed=2)


@pytest.fixture(scope="session")
def held_out() -> Table:
    return make_known_table(150, seed=3)


FAMILIES = [name for name in regressors if regressors[name].missing() is None]

Fit = Callable[[str], Fitted]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Regressor:
    return regressors[request.param]


@pytest.fixture(scope="module")
def fitted(train: Table, validation: Table) -> Fit:
    """Each family fitted once for all tests that only look."""
    known: dict[str, Fitted] = {}

    def fit(name: str) -> Fitted:
        if name not in known:
            load_libraries(regressors[name], train)
            known[name] = quick_fit(regressors[name], train, validation)
        return known[name]

    return fit


def quick_fit(family: Regressor, train: Table, validation: Table, seconds: float = SECONDS) -> Fitted:
    return family.fit(train, validation, family.defaults, Effort(seconds=seconds, seed=1))


def load_libraries(family: Regressor, train: Table) -> None:
    """Importing a library takes seconds that a short fit does not have."""
    quick_fit(family, train.take(np.arange(20)), train.take(np.arange(20, 30)), seconds=0.1)


def far_away(table: Table) -> Array:
    """Inputs that no measurement was near: everything tiny, huge, or of an unknown category."""
    rows = table.inputs[:20]
    inputs = np.vstack([rows * 1e-3, rows * 1e3, np.zeros_like(rows), rows * 1e6])
    inputs[:, table.schema.index("function")] = -1
    return inputs.astype(np.float32).astype(np.float64)


def test_it_beats_the_median(family: Regressor, fitted: Fit, held_out: Table) -> None:
    error = score(fitted(family.name).predict(held_out.inputs), held_out.target).mape
    baseline = score(fitted("median").predict(held_out.inputs), held_out.target).mape
    assert family.name == "median" or error < min(0.5, baseline / 4)


def test_the_deployed_form_predicts_what_was_fitted(family: Regressor, fitted: Fit, held_out: Table) -> None:
    inputs = np.vstack([held_out.inputs, far_away(held_out)])
    own = fitted(family.name)
    assert own.export().predict(inputs) == pytest.approx(own.predict(inputs), rel=1e-4)


def test_saved_parts_predict_the_same(family: Regressor, fitted: Fit, held_out: Table) -> None:
    form = fitted(family.name).export()
    restored = restore(through_json(form.parts()), held_out.inputs.shape[1])
    assert np.array_equal(restored.predict(held_out.inputs), form.predict(held_out.inputs))


def through_json(parts: Parts) -> Parts:
    """Parts as they come back from a file; fails on anything but numbers in arrays and JSON in facts."""
    assert all(array.dtype.kind in "fiub" for array in parts.arrays.values())
    inner = tuple(through_json(part) for part in parts.inner)
    return Parts(parts.form, json.loads(json.dumps(dict(parts.facts))), dict(parts.arrays), inner)


def test_one_row_predicts_what_it_does_among_others(family: Regressor, fitted: Fit, held_out: Table) -> None:
    form = fitted(family.name).export()
    alone = np.concatenate([form.predict(held_out.inputs[row : row + 1]) for row in range(5)])
    assert alone == pytest.approx(form.predict(held_out.inputs)[:5], rel=1e-5)


def test_far_outside_predictions_are_finite_and_positive(family: Regressor, fitted: Fit, held_out: Table) -> None:
    predicted = fitted(family.name).export().predict(far_away(held_out))
    assert np.isfinite(predicted).all()
    assert (predicted > 0).all()


def test_inputs_are_left_as_they_are(family: Regressor, fitted: Fit, held_out: Table) -> None:
    inputs = held_out.inputs.copy()
    fitted(family.name).export().predict(inputs)
    assert np.array_equal(inputs, held_out.inputs)


def test_the_same_seed_gives_the_same_regressor(family: Regressor, train: Table, validation: Table) -> None:
    few, checked = train.take(np.arange(40)), validation.take(np.arange(20))
    first, second = (quick_fit(family, few, checked, seconds=30.0) for _ in range(2))
    assert np.array_equal(first.predict(validation.inputs), second.predict(validation.inputs))


def test_a_fit_keeps_to_its_time(family: Regressor, latency_table: Callable[..., Table]) -> None:
    train, validation = latency_table(4000), latency_table(500, seed=1)
    load_libraries(family, train)
    began, granted_s = time.process_time(), 1.0
    quick_fit(family, train, validation, seconds=granted_s)
    assert time.process_time() - began < 5 * granted_s


def test_it_learns_from_twelve_rows(family: Regressor, train: Table, held_out: Table) -> None:
    form = quick_fit(family, train.take(np.arange(12)), train.take(np.arange(12, 16)), seconds=1.0).export()
    assert np.isfinite(form.log_value(held_out.inputs)).all()


def test_a_fit_without_time_still_gives_a_regressor(family: Regressor, train: Table, held_out: Table) -> None:
    form = quick_fit(family, train.take(np.arange(30)), train.take(np.arange(30, 40)), seconds=0.0).export()
    assert np.isfinite(form.log_value(held_out.inputs)).all()


def test_no_rows_predict_nothing(family: Regressor, fitted: Fit, held_out: Table) -> None:
    assert fitted(family.name).export().predict(held_out.inputs[:0]).shape == (0,)


def test_constant_columns_do_no_harm(family: Regressor, train: Table, validation: Table) -> None:
    def frozen(table: Table) -> Table:
        inputs = table.inputs.copy()
        inputs[:, [train.schema.index(name) for name in ("kernel_size", "function", "utilization")]] = 1.0
        return replace(table, inputs=inputs)

    form = quick_fit(family, frozen(train), frozen(validation), seconds=1.0).export()
    assert np.isfinite(form.log_value(validation.inputs)).all()


def test_the_defaults_are_a_point_of_the_search(family: Regressor) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    study.enqueue_trial(dict(family.defaults))
    assert dict(family.suggest(study.ask())) == dict(family.defaults)
