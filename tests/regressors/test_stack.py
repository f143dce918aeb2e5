"""What other devices take, weighted and corrected: the form, and the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from medn.core.table import Table
from medn.regressors.conformance import made_up_sources
from medn.regressors.form import Parts, restore
from medn.regressors.forms.stack import Stack, merged
from medn.regressors.regressor import Effort, regressors
from medn.regressors.sources import Sources
from medn.regressors.stacking import drawn_to, restrained, single_source, stacked


def fitted(name: str, train: Table, validation: Table) -> Stack:
    family = regressors[name]
    form = family.fit(train, validation, family.defaults, Effort(seconds=3.0)).export()
    assert isinstance(form, Stack)
    return form


def test_the_device_that_is_most_alike_is_found(train: Table) -> None:
    _, quick = train.source_logs.T  # type: ignore[union-attr]
    like = replace(train, target=2.0 * np.exp(quick))
    form = single_source(like)
    assert form.sources.names == ("quick",)
    assert form.predict(train.inputs) == pytest.approx(like.target, rel=1e-3)


def test_few_rows_leave_the_weights_at_the_mean(train: Table) -> None:
    noise = np.random.default_rng(0).lognormal(0.5, 0.2, 6)
    few = train.take(np.arange(6))
    form = stacked(replace(few, target=np.exp(few.source_logs.mean(axis=1)) * noise))  # type: ignore[union-attr]
    assert form.weights == pytest.approx((0.5, 0.5), abs=0.2)


def test_few_rows_lean_on_the_device_that_is_alike(train: Table) -> None:
    noise = np.random.default_rng(0).lognormal(0.5, 0.1, 6)
    few = train.take(np.arange(6))
    slow, quick = stacked(replace(few, target=np.exp(few.source_logs[:, 1]) * noise)).weights  # type: ignore[index]
    assert quick > 0.6 > 0.4 > slow


def test_few_rows_lean_on_what_is_known_beforehand() -> None:
    known = np.array([1.8, -0.4, -0.4])

    def off(law: ArrayLike, seed: int) -> float:
        random = np.random.default_rng(seed)
        columns = 2 * random.normal(size=(8, 1)) + 0.5 * random.normal(size=(8, 3))
        targets = columns @ known + 0.5 * random.normal(size=8)
        return float(np.abs(drawn_to(columns, targets, [law], np.eye(3)).weights - known).sum())

    assert np.mean([off(known, seed) < off(np.full(3, 1 / 3), seed) for seed in range(20)]) >= 0.7


def test_what_a_sheet_says_is_one_choice_among_devices(train: Table) -> None:
    sources, logs = train.sources, train.source_logs
    assert isinstance(sources, Sources)
    assert logs is not None
    law = np.array([1.5, -0.5])
    sheet = replace(sources, laws=((0.5, 0.5), (1.5, -0.5)))
    form = single_source(replace(train, sources=sheet, target=3.0 * np.exp(logs @ law)))
    assert form.weights == pytest.approx(law, abs=1e-3)


def test_one_row_that_is_far_off_does_not_tilt_the_others() -> None:
    column = np.linspace(-2, 2, 40)[:, None]
    residuals = 0.5 + 0.3 * column[:, 0]
    residuals[-1] += 6.0
    law = restrained(column, residuals)
    assert law.weights[0] == pytest.approx(0.3, abs=0.05)
    assert law.constant == pytest.approx(0.5, abs=0.1)


def test_a_mean_of_stacks_is_one_stack(train: Table, validation: Table, held_out: Table) -> None:
    names = ("source_stack", "best_source", "lightgbm_on_stack", "gaussian_process_on_stack")
    stacks = [fitted(name, train, validation) for name in names]
    weights = (0.1, 0.2, 0.3, 0.4)
    one = merged(list(zip(stacks, weights, strict=True)))
    assert one is not None
    assert len(one.sources.forms) == 2
    expected = sum(weight * stack.log_value(held_out.inputs) for stack, weight in zip(stacks, weights, strict=True))
    assert one.log_value(held_out.inputs) == pytest.approx(expected, abs=1e-9)
    again = restore(one.parts(), held_out.inputs.shape[1])
    assert again.log_value(held_out.inputs) == pytest.approx(one.log_value(held_out.inputs), abs=1e-12)


def test_stacks_on_different_devices_stay_apart(train: Table, validation: Table) -> None:
    first, second = (Stack(made_up_sources().only([place]), [1.0], 0.0) for place in (0, 1))
    assert merged([(first, 0.5), (second, 0.5)]) is None


def test_devices_that_learned_together_share_a_form() -> None:
    known = made_up_sources()
    shared = Sources(("a", "b"), known.forms[:1], known.views, (0, 0))
    assert len(Stack(shared, (0.5, 0.5), 0.0).parts().inner) == 1


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"form_of": [0, 7]}, "form of a device"),
        ({"form_of": [0, 0]}, "that of no device"),
        ({"weights": [1.0]}, "not as many"),
        ({"weights": [1.0, float("inf")]}, "weights"),
        ({"constant": 1e9}, "constant"),
        ({"names": ["a", 5]}, "device"),
    ],
)
def test_a_damaged_stack_is_refused(facts: dict[str, object], words: str, train: Table) -> None:
    parts = stacked(train).parts()
    damaged = Parts(parts.form, {**parts.facts, **facts}, parts.arrays, parts.inner)
    with pytest.raises(ValueError, match=words):
        restore(damaged, train.inputs.shape[1])
