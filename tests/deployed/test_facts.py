"""What is known of a candidate, written and read: everything stays, and what an earlier version wrote is understood."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from medn.core.metrics import Scores
from medn.core.statistic import NoiseFloor
from medn.core.table import Schema
from medn.deployed.candidate import Candidate, describe, from_description
from medn.deployed.facts import Extrapolation, FormCosts, IntervalCoverage, ShippedScores, TrainingFacts, Trials

GOOD = Scores(6, 0.125, 0.1, 0.2, 0.25, 0.5, 0.9, 0.8, 0.7)
ALONE = replace(GOOD, rows=1, r2=None, r2_log=None, spearman=None)
SCORES = ShippedScores(
    GOOD,
    GOOD,
    IntervalCoverage(0.9, 6, 0.8, 0.5, 1.0, 0.25),
    test_inside=GOOD,
    test_outside=ALONE,
    outside=0.25,
    extrapolation=Extrapolation(GOOD, "own", 0.5, 0.3, 0.125, 0.25, covered=1.0, width=2.0),
    test_calm=GOOD,
    test_never_calm=ALONE,
    never_calm=0.125,
)
FACTS = TrainingFacts(
    *("key", 2.0, 3, "random", "table"),
    split_sizes={"train": 4},
    schema=Schema(("size", "function"), {"function": ("relu",)}),
    constants={"threads": 1},
    left_out={"failed": 2},
    noise=NoiseFloor(5, 0.01, 0.02),
    devices=("a", "b"),
    settings={"slope": 0.5},
    trials=Trials(3, 1, 1, ("it crashed",)),
    fit_seconds=1.5,
)
COSTS = FormCosts(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7, 8.0, 9)
CANDIDATE = Candidate("a", "linear", "ridge", FACTS, scores=SCORES, size_bytes=10, row_us=2.5, costs=COSTS)


def through_json(candidate: Candidate, **changed: Any) -> Candidate:
    facts, arrays = describe(candidate)
    return from_description(json.loads(json.dumps({**facts, **changed})), arrays)


def test_a_candidate_is_read_as_it_was_written() -> None:
    assert through_json(CANDIDATE) == CANDIDATE


def test_a_failed_candidate_keeps_its_reason_and_has_no_scores() -> None:
    failed = Candidate("a", "linear", "ridge", TrainingFacts("key", 2.0, 3, "random"), "it crashed")
    assert through_json(failed) == failed
    assert (failed.scores, failed.deployed, failed.costs) == (None, None, None)


def test_a_candidate_of_before_does_not_tell_its_table() -> None:
    facts, arrays = describe(CANDIDATE)
    del facts["table"]
    assert from_description(facts, arrays).facts.table == ""


def test_the_first_version_told_beside_the_bare_form_what_shipped() -> None:
    shipped = {**GOOD.as_json(), "mape": 0.5}
    written = {"validation": GOOD.as_json(), "test": GOOD.as_json(), "test_held": shipped}
    found = through_json(CANDIDATE, scores=written, extrapolation={**GOOD.as_json(), "above": 1e6})
    assert found.scores is not None
    assert (found.scores.test.mape, found.scores.test_inside) == (0.5, None)
    assert found.scores.extrapolation == Extrapolation(GOOD)


def test_scores_have_the_digits_that_are_told() -> None:
    assert replace(SCORES, outside=1 / 3).told.outside == pytest.approx(1 / 3, abs=1e-5)
    assert replace(SCORES, outside=1 / 3).told == replace(SCORES, outside=1 / 3).told.told


def test_a_reason_of_a_failed_trial_is_kept_once() -> None:
    assert Trials(2, reasons=("it crashed",)).and_failed("it crashed").reasons == ("it crashed",)


def test_rows_that_were_never_calm_are_told_apart_in_a_sentence() -> None:
    assert SCORES.told_apart("linear") == (
        "linear: 12.5 % of the test rows were never calm; the mean error is 12.5 % on them, 12.5 % on the others"
    )
    assert replace(SCORES, test_never_calm=None, never_calm=0.0).told_apart("linear") == ""
