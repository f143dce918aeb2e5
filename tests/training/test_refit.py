"""Rows held out are chosen and calibrated by as they were predicted before what ships learned from them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from medn.choosing.ensembling import with_ensembles
from medn.choosing.evaluation import Evaluated, evaluate_run, predictions
from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.table import Array
from medn.core.values import told
from medn.deployed.calibration import interval_coverage
from medn.deployed.candidate import deployed_of, scores_of
from medn.deployed.deployed import Deployed
from medn.deployed.facts import NOT_TEST, TRAIN
from medn.regressors.form import Form
from medn.regressors.forms.constant import Constant
from medn.regressors.regressor import Effort, Fitted, regressors
from medn.training.learning import Learning
from medn.training.scoring import at_level, unseen
from medn.training.shipped_form import shipped_form
from tests.training.in_process import train_here

WriteRun = Callable[..., Path]
SPLIT = "range:flops:1e6"
FAMILIES = ("ridge", "linear", "nearest")


@pytest.fixture(scope="module")
def run(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows beyond a value are never in folds, however few there are."""
    run = write_run(tmp_path_factory.mktemp("held-out") / "run", layers=120, activations=0)
    train_here(run, FAMILIES, SPLIT)
    return run


@pytest.fixture(scope="module")
def place(run: Path) -> Evaluated:
    (found,) = evaluate_run(run, split=Split.parse(SPLIT))
    return found


def test_what_ships_has_learned_from_the_rows_that_were_held_out(place: Evaluated) -> None:
    prepared, ridge = place.prepared, place.candidates["ridge"]
    assert ridge.facts.learned_from == NOT_TEST
    nothing = prepared.train.take(np.arange(0))
    again = regressors["ridge"].fit(prepared.learned, nothing, ridge.facts.settings, Effort(seed=1))
    inputs = prepared.train.inputs
    assert deployed_of(ridge).form.predict(inputs) == pytest.approx(again.predict(inputs), rel=1e-4)


def test_what_is_chosen_by_has_not(place: Evaluated) -> None:
    prepared, ridge = place.prepared, place.candidates["ridge"]
    fitted = regressors["ridge"].fit(prepared.train, prepared.validation, ridge.facts.settings, Effort(seed=1))
    inside = prepared.held_out_place[1]
    assert ridge.held_out is not None
    assert inside.sum() > 10
    expected = np.log(fitted.predict(prepared.held_out.inputs))
    assert ridge.held_out[inside] == pytest.approx(expected[inside], abs=1e-3)
    validation = place.predicted_s["ridge"]["validation"]
    assert validation == pytest.approx(np.exp(ridge.held_out[: len(prepared.validation)]))
    assert scores_of(ridge).validation.mape == told(score(validation, prepared.validation.target).mape)


def test_test_scores_are_of_what_ships(place: Evaluated) -> None:
    test = place.prepared.test
    for candidate in place.candidates.values():
        shipped = deployed_of(candidate).predict(test.inputs)
        assert scores_of(candidate).test.mape == told(score(shipped, test.target).mape)


def test_the_range_that_ships_reaches_as_far_as_the_rows_learned_from(place: Evaluated) -> None:
    prepared = place.prepared
    for candidate in place.candidates.values():
        measured = deployed_of(candidate).range
        numbers = [place for place, name in enumerate(measured.schema.names) if name in measured.schema.numeric]
        assert measured.high[numbers] == pytest.approx(prepared.learned.inputs[:, numbers].max(axis=0))
        assert measured.slack == prepared.range.slack


def test_calibration_rows_are_told_as_they_were_predicted_before(place: Evaluated) -> None:
    candidate = place.candidates["nearest"]
    table, predicted = unseen(candidate, place.prepared)
    held_out = place.prepared.calibration
    assert table.target[: len(held_out)] == pytest.approx(held_out.target)
    assert candidate.held_out is not None
    assert np.log(predicted[: len(held_out)]) == pytest.approx(candidate.held_out[-len(held_out) :])


def test_another_level_is_calibrated_with_the_same_rows(place: Evaluated) -> None:
    candidate = place.candidates["ridge"]
    interval = deployed_of(candidate).interval
    assert at_level(candidate, place.prepared, interval.level).interval == interval


def test_an_ensemble_is_chosen_by_what_its_members_said_of_rows_held_out(place: Evaluated) -> None:
    joined = with_ensembles(place)
    assert joined.ensembles
    for name, weights in joined.ensembles.items():
        logs = sum(weight * np.log(place.predicted_s[member]["validation"]) for member, weight in weights.items())
        assert np.log(joined.predicted_s[name]["validation"]) == pytest.approx(logs)
        assert joined.candidates[name].facts.learned_from == NOT_TEST


def test_an_ensemble_of_which_one_has_learned_from_fewer_rows_ends_where_that_ends(place: Evaluated) -> None:
    prepared = place.prepared
    name, weights = next(iter(with_ensembles(place).ensembles.items()))
    fewer = place.candidates[list(weights)[-1]]
    fewer = replace(
        fewer,
        facts=replace(fewer.facts, learned_from=TRAIN),
        deployed=replace(deployed_of(fewer), range=prepared.range),
    )
    made = with_ensembles(replace(place, candidates={**place.candidates, fewer.regressor: fewer})).candidates[name]
    assert made.facts.learned_from == TRAIN
    assert deployed_of(made).range is prepared.range


@dataclass(frozen=True, eq=False)
class Always(Fitted):
    value: float

    def predict(self, inputs: Array) -> Array:
        return np.full(len(inputs), self.value)

    def export(self) -> Form:
        return Constant(float(np.log(self.value)))


def test_without_time_for_another_fit_the_one_there_is_ships(place: Evaluated) -> None:
    learned = Learning(np.zeros(len(place.prepared.validation)), Always(1.0))
    assert shipped_form(learned, None, place.prepared)[1] == TRAIN


def test_a_fit_that_came_to_no_good_end_does_not_ship(place: Evaluated) -> None:
    near = float(np.median(place.prepared.validation.target))
    learned = Learning(np.full(len(place.prepared.validation), np.log(near)), Always(near))
    inputs = place.prepared.test.inputs
    for value, learned_from in ((near * 1000, TRAIN), (np.nan, TRAIN), (near, NOT_TEST)):
        form, found = shipped_form(learned, Always(value), place.prepared)
        assert found == learned_from
        assert form.predict(inputs) == pytest.approx(near)


def test_what_was_predicted_is_kept_and_not_asked_for_again(place: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = {name: deployed_of(each).predict(place.prepared.test.inputs) for name, each in place.candidates.items()}
    monkeypatch.setattr(Deployed, "answer", lambda *_: pytest.fail("asked again"))
    for name, found in predictions(place.candidates, place.prepared).items():
        assert found["test"] == pytest.approx(shipped[name])


def test_the_coverage_is_told_at_the_level_that_calibration_layers_can_promise(place: Evaluated) -> None:
    candidate = place.candidates["ridge"]
    few = replace(deployed_of(candidate).interval, level=0.8, calibration_layers=3)
    deployed = replace(deployed_of(candidate), interval=few)
    test = place.prepared.test
    assert interval_coverage(deployed, deployed.answer(test.inputs), test.target).level == pytest.approx(0.75)
    enough = replace(deployed, interval=replace(few, calibration_layers=100))
    assert interval_coverage(enough, enough.answer(test.inputs), test.target).level == 0.8
