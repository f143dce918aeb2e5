"""Learning in folds: what is predicted of a row has not seen its fold, and what ships has seen all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from medn.choosing.ensembling import with_ensembles
from medn.choosing.evaluation import evaluate_run
from medn.core.intervals import calibrate_in_folds
from medn.core.metrics import score
from medn.core.ranges import MeasuredRange
from medn.core.splits import Split
from medn.core.table import Array, Table
from medn.core.values import told
from medn.deployed.beyond import BOUNDED, OWN
from medn.deployed.candidate import deployed_of, scores_of
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings
from medn.runs.tables import read_source
from medn.runs.training_table import load_table, table_path
from medn.training.candidate_store import load_candidates
from medn.training.extrapolation import made_ready
from medn.training.learning import Learning, best_steps, learn, refit
from medn.training.prepared import Prepared, RangeEdge, prepare
from medn.training.scoring import at_level
from tests.training.in_process import train_here

WriteRun = Callable[..., Path]
UNKNOWN = 7.0


@dataclass(frozen=True, eq=False)
class Remembered(Fitted):
    """Knows the rows it was fitted with, and nothing else."""

    known: Mapping[bytes, float]
    step_errors: tuple[float, ...] = (0.3, 0.1, 0.2)

    def predict(self, inputs: Array) -> Array:
        return np.array([self.known.get(row.tobytes(), UNKNOWN) for row in inputs])

    def export(self) -> Form:
        raise NotImplementedError


class Memory(Regressor):
    name = "memory"
    description = "remembers every row"

    def __init__(self) -> None:
        self.efforts: list[Effort] = []
        self.validated: list[int] = []

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Remembered:
        self.efforts.append(effort)
        self.validated.append(len(validation))
        return Remembered({row.tobytes(): value for row, value in zip(train.inputs, train.target, strict=True)})


@pytest.fixture(scope="module")
def prepared(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    run = write_run(tmp_path_factory.mktemp("folds") / "run", layers=40, activations=0)
    tables, _ = prepare(read_source(run), ["linear"], Split(), seed=1, without_unstable=False)
    return tables["made-up"]["linear"]


def test_no_row_is_predicted_by_what_learned_from_its_layer(prepared: Prepared) -> None:
    learned = learn(Memory(), {"linear": prepared}, {}, Effort())["linear"]
    assert np.exp(learned.held_out(prepared, OWN)) == pytest.approx(UNKNOWN)


@dataclass(frozen=True, eq=False)
class Exploding(Fitted):
    """Beyond all measure wherever nothing was measured."""

    known: MeasuredRange

    def predict(self, inputs: Array) -> Array:
        return np.where(self.known.in_range(inputs), UNKNOWN, 1e9)

    def export(self) -> Form:
        raise NotImplementedError


class Steep(Regressor):
    name = "steep"
    description = "grows without bounds"
    extrapolates = True

    def __init__(self, edges: Iterable[RangeEdge]) -> None:
        self.edges = iter(edges)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Exploding:
        return Exploding(next(self.edges).range)


def test_rows_beyond_the_other_folds_are_predicted_as_they_would_be_shipped(prepared: Prepared) -> None:
    ready = made_ready(prepared, 0)
    learned = learn(Steep(ready.fold_edges), {"linear": ready}, {}, Effort())["linear"]
    by_itself = np.exp(learned.held_out(ready, OWN))
    assert 0 < (by_itself > 1e8).sum() < len(by_itself) / 5
    assert np.exp(learned.log_values).max() < 1e5
    assert learned.held_out(ready, BOUNDED) == pytest.approx(learned.log_values)


def test_what_ships_has_learned_from_every_row_with_the_steps_that_were_best(prepared: Prepared) -> None:
    memory = Memory()
    learned = learn(memory, {"linear": prepared}, {}, Effort())["linear"]
    fitted = refit(memory, {"linear": prepared.learned}, {}, [learned.steps], Effort())["linear"]
    assert fitted.predict(prepared.train.inputs) == pytest.approx(prepared.train.target)
    assert memory.efforts[-1].steps == 2
    assert memory.validated[-1] == 0


def test_only_the_first_fold_reports_how_it_gets_on(prepared: Prepared) -> None:
    memory, reports = Memory(), []
    learn(memory, {"linear": prepared}, {}, Effort(report=lambda step, error: reports.append(step)))
    for effort in memory.efforts:
        effort.report(1, 0.5)
    assert len(reports) == 1


def test_parts_that_are_held_out_are_fitted_once(prepared: Prepared) -> None:
    apart = replace(prepared, folds=None, train=prepared.test, validation=prepared.train)
    memory = Memory()
    learned = learn(memory, {"linear": apart}, {}, Effort())["linear"]
    assert len(memory.efforts) == 1
    assert learned.fitted is not None
    assert learned.steps == 2


def test_the_best_steps_are_those_of_all_folds_together() -> None:
    early, late = Remembered({}, (0.2, 0.1)), Remembered({}, (0.9, 0.8, 0.1, 0.4))
    assert best_steps([early, late]) == 3
    assert best_steps([Remembered({}, ())]) is None


def test_the_error_of_a_learning_is_that_of_its_out_of_fold_values(prepared: Prepared) -> None:
    twice = Learning(np.log(2 * prepared.train.target))
    assert twice.error(prepared) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def trained(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_run(tmp_path_factory.mktemp("trained") / "run", layers=40, activations=0)
    train_here(run, ["ridge", "gaussian_process", "nearest"])
    return run


def test_a_candidate_keeps_its_out_of_fold_predictions_and_is_chosen_by_them(trained: Path) -> None:
    (place,) = evaluate_run(trained)
    for candidate in load_candidates(trained / "candidates"):
        assert candidate.held_out is not None
        out_of_fold = np.exp(candidate.held_out)
        assert place.predicted_s[candidate.regressor]["validation"] == pytest.approx(out_of_fold)
        expected = score(out_of_fold, place.prepared.train.target).mape
        assert scores_of(candidate).validation.mape == told(expected)


def test_the_written_table_keeps_its_folds(trained: Path) -> None:
    table = load_table(table_path(trained, Split(), "made-up", "linear"))
    assert table is not None
    assert table.rows.folds is not None
    assert len(table.rows.folds) == len(table.rows.train)


def test_an_ensemble_is_judged_by_the_out_of_fold_predictions_of_its_members(trained: Path) -> None:
    (place,) = (with_ensembles(place) for place in evaluate_run(trained))
    for name, weights in place.ensembles.items():
        logs = sum(weight * np.log(place.predicted_s[member]["validation"]) for member, weight in weights.items())
        assert np.log(place.predicted_s[name]["validation"]) == pytest.approx(logs)


def test_an_interval_of_another_level_is_narrower_and_widens_alike(trained: Path) -> None:
    (place,) = evaluate_run(trained)
    candidate = place.candidates["ridge"]
    interval, half = deployed_of(candidate).interval, at_level(candidate, place.prepared, 0.5).interval
    assert half.quantile < interval.quantile
    assert half.widening == interval.widening


def test_intervals_from_folds_cover_what_they_promise() -> None:
    random = np.random.default_rng(0)
    layers = np.array([f"layer {number}" for number in range(300)])
    folds = (np.arange(300) % 5).astype(np.int8)
    covered = []
    for _ in range(20):
        predicted = np.exp(random.normal(0, 2, 600))
        measured = predicted * np.exp(random.normal(0, 0.05 + 0.1 * (predicted < 1), 600))
        interval = calibrate_in_folds(predicted[:300], measured[:300], np.zeros(300), layers, folds)
        low, high = interval.bounds(predicted[300:], np.zeros(300))
        covered.append(((measured[300:] >= low) & (measured[300:] <= high)).mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


def test_intervals_from_a_handful_of_layers_are_as_wide_as_their_errors() -> None:
    random = np.random.default_rng(1)
    layers, folds = np.array([f"layer {number}" for number in range(12)]), (np.arange(12) % 5).astype(np.int8)
    for _ in range(200):
        predicted = np.exp(random.normal(0, 3, 12))
        errors = 0.02 * random.standard_t(1, 12)
        distance = random.uniform(0, 1, 12)
        interval = calibrate_in_folds(predicted, predicted * np.exp(errors), distance, layers, folds)
        assert interval.width(np.log(predicted), distance).max() < 4 * np.abs(errors).max()
