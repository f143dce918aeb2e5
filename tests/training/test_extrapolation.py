"""How a regressor does beyond the work that it learned from, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.choosing.ensembling import ensemble
from medn.choosing.evaluation import Evaluated
from medn.core.splits import Split
from medn.core.table import Schema, Table
from medn.deployed.beyond import BOUNDED, HELD, OWN, WAYS
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.deployed.checked import chosen_way, pack_checked, widening
from medn.deployed.facts import Extrapolation, TrainingFacts
from medn.regressors.regressor import Effort, Settings, regressors
from medn.runs.tables import read_source
from medn.training.extrapolation import check, cut, made_ready, restored, work
from medn.training.learning import Learning
from medn.training.prepared import Prepared, prepare
from medn.training.scoring import judged, way_beyond
from tests.deployed.calibrating import UNCALIBRATED

WriteRun = Callable[..., Path]


@pytest.fixture(scope="module")
def prepared(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    run = write_run(tmp_path_factory.mktemp("beyond") / "run", layers=120)
    return made_ready(prepare(read_source(run), ["linear"], Split(), 0, False)[0]["made-up"]["linear"], 0)


def table(names: tuple[str, ...], *columns: list[float]) -> Table:
    inputs = np.array(columns).T
    return Table(Schema(names), inputs, np.ones(len(inputs)), np.arange(len(inputs)).astype(str))


def test_work_is_flops_else_bytes_else_the_product_of_sizes() -> None:
    assert work(table(("moved_bytes", "flops"), [1, 2], [5, 6])).tolist() == [5, 6]
    assert work(table(("size", "moved_bytes"), [9, 9], [1, 2])).tolist() == [1, 2]
    assert work(table(("size", "batch_size"), [1, 2], [3, 4])).tolist() == [8, 15]


def test_the_two_halves_do_not_overlap(prepared: Prepared) -> None:
    halves = cut(prepared)
    assert halves.is_enough
    assert work(halves.train).max() <= halves.above < min(work(part).min() for part in halves.larger.values())
    assert len(halves.train) + len(halves.validation) == pytest.approx(0.7 * len(prepared.train), abs=2)
    assert not set(halves.train.groups) & set(halves.validation.groups)


def test_the_roofline_of_the_check_knows_the_smaller_rows_alone(prepared: Prepared) -> None:
    assert prepared.smaller is not None
    assert prepared.smaller.edge.range.high.max() <= cut(prepared).train.inputs.max()
    assert prepared.smaller.edge.roofline is not None
    assert prepared.roofline is not None


def test_a_constant_is_held_and_a_law_is_not_whatever_their_defaults(
    prepared: Prepared, plain_regressors: object
) -> None:
    ways = {}
    for name, settings in (("median", {}), ("test-law", {"slope": 0.8})):
        found = check(regressors[name], {"linear": prepared}, settings, Effort(10.0))["linear"]
        ways[name] = chosen_way(found, default=BOUNDED if name == "median" else HELD)
    assert ways == {"median": HELD, "test-law": BOUNDED}


def test_held_efficiency_keeps_even_a_constant_growing(prepared: Prepared) -> None:
    found = check(regressors["median"], {"linear": prepared}, {}, Effort(10.0))["linear"]["test"]
    assert np.corrcoef(found.log_value(HELD), found.measured)[0, 1] > 0.5
    assert np.ptp(found.log_value(OWN)) < 1e-9


def test_too_few_rows_are_left_out(prepared: Prepared) -> None:
    few = made_ready(replace(prepared, train=prepared.train.take(np.arange(5)), folds=np.arange(5, dtype=np.int8)), 0)
    assert few.smaller is None
    assert check(regressors["median"], {"linear": few}, {}, Effort(10.0)) == {}


def test_a_check_that_was_saved_says_the_same(prepared: Prepared) -> None:
    found = check(regressors["roofline"], {"linear": prepared}, regressors["roofline"].defaults, Effort(10.0))["linear"]
    again = restored(pack_checked(found), prepared)
    assert again is not None
    for part, larger in found.items():
        np.testing.assert_allclose(again[part].errors(HELD), larger.errors(HELD), atol=1e-4)
        np.testing.assert_array_equal(again[part].groups, larger.groups)


LAW = {"slope": 0.8}


def trained(prepared: Prepared, name: str, settings: Settings) -> Candidate:
    """A candidate as a job makes it, with a check that always has time."""
    regressor = regressors[name]
    checked = check(regressor, {"linear": prepared}, settings, Effort(10.0)).get("linear")
    fitted = regressor.fit(prepared.train, prepared.validation, settings, Effort(10.0))
    way = way_beyond(prepared, checked, BOUNDED if regressor.extrapolates else HELD)
    held_out = Learning(np.empty(0), fitted).held_out(prepared, way)
    blank = Candidate("made-up", "linear", name, TrainingFacts(name, 1.0, 0, "random"))
    return judged(blank, prepared, fitted.export(), prepared.edge, way, held_out, checked)


def test_intervals_beyond_the_range_hold_what_they_promise(
    write_run: WriteRun, tmp_path: Path, plain_regressors: object
) -> None:
    """The exponent is a little wrong, so the error grows with the distance."""
    run = write_run(tmp_path / "run", layers=400, activations=0)
    found = prepare(read_source(run), ["linear"], Split.parse("range:flops:1e5"), 0, False)[0]["made-up"]["linear"]
    ready = replace(made_ready(found, 0), way=BOUNDED)
    deployed = deployed_of(trained(ready, "test-law", {"slope": 0.7}))
    answer, measured_s = deployed.answer(ready.test.inputs), ready.test.target
    outside = ~answer.inside
    covered = (measured_s >= answer.low) & (measured_s <= answer.high)
    assert outside.sum() > 30
    assert covered[outside].mean() > 0.8
    as_inside = deployed.interval.bounds(answer.value, np.full(len(outside), 0.5))  # half way to the edge
    assert ((measured_s >= as_inside[0]) & (measured_s <= as_inside[1]))[outside].mean() < 0.6


def extrapolation(candidate: Candidate) -> Extrapolation:
    found = scores_of(candidate).extrapolation
    assert found is not None
    return found


def test_an_ensemble_has_an_extrapolation_error_and_a_way_of_its_own(
    prepared: Prepared, plain_regressors: object
) -> None:
    members = {name: trained(prepared, name, settings) for name, settings in (("median", {}), ("test-law", LAW))}
    evaluated = Evaluated("made-up", "linear", prepared, members, {})
    found = ensemble(evaluated, "test-law+median", {"test-law": 0.9, "median": 0.1})
    assert deployed_of(found).way in WAYS
    own = extrapolation(found)
    law, median = (extrapolation(members[name]).scores for name in ("test-law", "median"))
    assert own.scores.rows == median.rows
    assert law.mape < own.scores.mape < median.mape
    assert own.held_mape != own.own_mape


def test_an_ensemble_of_what_was_not_checked_does_what_most_of_it_does(
    prepared: Prepared, plain_regressors: object
) -> None:
    checked, unchecked = trained(prepared, "median", {}), replace(trained(prepared, "test-law", LAW), checked={})
    evaluated = Evaluated("made-up", "linear", prepared, {"median": checked, "test-law": unchecked}, {})
    ways = [deployed_of(ensemble(evaluated, "x", {"test-law": share, "median": 1 - share})).way for share in (0.9, 0.1)]
    assert ways == [deployed_of(unchecked).way, deployed_of(checked).way] == [BOUNDED, HELD]
    assert scores_of(ensemble(evaluated, "x", {"test-law": 0.9, "median": 0.1})).extrapolation is None


def test_a_check_of_other_rows_is_none(prepared: Prepared) -> None:
    found = pack_checked(check(regressors["median"], {"linear": prepared}, {}, Effort(10.0))["linear"])
    assert restored({name: array[1:] for name, array in found.items()}, prepared) is None
    assert restored({}, prepared) is None


def test_a_form_without_end_is_held_and_its_intervals_have_one(prepared: Prepared) -> None:
    found = check(regressors["median"], {"linear": prepared}, {}, Effort(10.0))["linear"]
    endless = {
        part: replace(larger, beyond=replace(larger.beyond, own=np.full(len(larger.measured), value)))
        for (part, larger), value in zip(found.items(), (np.nan, np.inf, -np.inf), strict=True)
    }
    assert chosen_way(endless, BOUNDED) == HELD
    assert np.isfinite(widening(endless, OWN, UNCALIBRATED))
