"""The Gaussian process: its likelihood, what it learns on, and what it ships."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from medn.core.metrics import score
from medn.core.table import Schema, Table
from medn.regressors import residual_process
from medn.regressors.families.gaussian_process import GaussianProcess
from medn.regressors.families.roofline import fit_plain_roofline
from medn.regressors.fitted import Learned
from medn.regressors.form import restore
from medn.regressors.forms.kernel import Kernel
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, Fitted, regressors
from medn.regressors.residual_process import MOST_POINTS, Likelihood


def fitted(table: Table, seconds: float = 30.0) -> Fitted:
    return GaussianProcess().fit(table, table, GaussianProcess.defaults, Effort(seconds))


def error(result: Fitted, table: Table) -> float:
    return score(result.predict(table.inputs), table.target).mape


def test_the_gradient_of_the_likelihood_is_that_of_its_values() -> None:
    random = np.random.default_rng(0)
    likelihood = Likelihood(random.normal(size=(12, 3)), random.normal(size=12), spread=0.7)
    vector = random.normal(0, 0.3, 5)
    step = 1e-6
    numeric = [
        (likelihood.loss(vector + shift)[0] - likelihood.loss(vector - shift)[0]) / (2 * step)
        for shift in step * np.eye(5)
    ]
    assert likelihood.loss(vector)[1] == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_from_few_rows_it_errs_less_than_the_roofline_it_stands_on(
    latency_table: Callable[..., Table], held_out: Table
) -> None:
    few = latency_table(60, seed=5)
    plain = Learned.from_form(fit_plain_roofline(few, Effort(30.0)))
    assert error(fitted(few), held_out) < error(plain, held_out)


def test_a_table_that_does_not_tell_the_work_is_learned_without_a_roofline(train: Table, held_out: Table) -> None:
    names = ("in_channels", "out_channels", "in_h", "kernel_size", "batch_size", "utilization")
    columns = [train.schema.index(name) for name in names]

    def without_work(table: Table) -> Table:
        return replace(table, schema=Schema(names), inputs=table.inputs[:, columns])

    result = fitted(without_work(train))
    assert isinstance(result.export(), Kernel)
    assert error(result, without_work(held_out)) < 0.3


def test_rows_measured_twice_do_not_make_it_fail(train: Table) -> None:
    twice = train.take(np.repeat(np.arange(30), 2))
    assert np.isfinite(fitted(twice).predict(twice.inputs)).all()


def test_a_single_row_can_be_learned(train: Table) -> None:
    one = train.take(np.arange(1))
    assert np.isfinite(fitted(one).predict(train.inputs)).all()


def test_without_time_it_predicts_from_the_typical_length_scales(train: Table, held_out: Table) -> None:
    assert error(fitted(train, seconds=0.0), held_out) < 0.5


def kernel_of(result: Fitted) -> Kernel:
    form = result.export()
    assert isinstance(form, WeightedSum)
    kernel = form.forms[-1]
    assert isinstance(kernel, Kernel)
    return kernel


def test_many_rows_ship_as_few_points(latency_table: Callable[..., Table]) -> None:
    assert len(kernel_of(fitted(latency_table(1100, seed=6))).weights) == MOST_POINTS


def test_rows_that_are_not_kept_are_learned_from(
    latency_table: Callable[..., Table], held_out: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residual_process, "MOST_POINTS", 60)
    many = latency_table(1000, seed=6)
    kept = many.take(np.sort(np.random.default_rng(0).permutation(len(many))[:60]))
    projected = fitted(many)
    assert len(kernel_of(projected).weights) == 60
    assert error(projected, held_out) < 0.9 * error(fitted(kept), held_out)


def test_points_at_the_same_place_do_not_make_it_fail(train: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_process, "MOST_POINTS", 20)
    same = train.take(np.repeat(np.arange(4), 30))
    assert np.isfinite(fitted(same).predict(train.inputs)).all()


def test_a_kernel_without_shape_and_scale_is_the_bell_it_was_before_there_were_others(train: Table) -> None:
    kernel = regressors["svr"].fit(train, train, regressors["svr"].defaults, Effort(30.0)).export()
    parts = kernel.parts()
    old = replace(parts, facts={name: fact for name, fact in parts.facts.items() if name != "shape"})
    assert np.array_equal(restore(old, train.inputs.shape[1]).predict(train.inputs), kernel.predict(train.inputs))


@pytest.mark.parametrize("shape", ["", "cubic", 3, None])
def test_a_kernel_of_a_strange_shape_is_refused(train: Table, shape: object) -> None:
    kernel = fitted(train.take(np.arange(20))).export().parts().inner[-1]
    strange = replace(kernel, facts={**kernel.facts, "shape": shape})
    with pytest.raises(ValueError, match="shape of a kernel"):
        restore(strange, len(train.schema.names))
