"""What a deployed predictor is worth: every error and coverage that any verb tells is worked out here, once."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from medn.core.intervals import LEVEL, Interval
from medn.core.metrics import Scores, score, with_certainty
from medn.core.processor_time import processor_seconds
from medn.core.ranges import Flags
from medn.core.table import Array, Table
from medn.deployed.calibration import HeldOut, calibrated, calibrated_in_folds, interval_coverage
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.deployed.checked import Checked, chosen_way, extrapolation, pack_checked, widening
from medn.deployed.deployed import Answer, Deployed
from medn.deployed.facts import Extrapolation, ShippedScores
from medn.regressors.form import Form
from medn.training.prepared import Prepared, RangeEdge


def judged(
    blank: Candidate,
    prepared: Prepared,
    form: Form,
    edge: RangeEdge,
    way: str,
    held_out: Array,
    checked: Checked | None = None,
) -> Candidate:
    """The candidate that ships this form, and what it knows of the edge of the rows that it learned from.

    It is chosen by and calibrated with what was predicted, before, of rows held out, and scored on test rows. A check
    says how wide to be beyond the range.
    """
    interval = _interval(prepared, held_out)
    interval = replace(interval, widening=widening(checked, way, interval))
    interval.check()  # as reading it back would: what cannot be read must not be saved
    deployed = Deployed(form, edge.range, interval, blank.facts.constants, way, edge.roofline)
    answer = deployed.answer(prepared.test.inputs)
    return replace(
        blank,
        deployed=deployed,
        scores=_scores(deployed, prepared, held_out, answer, extrapolation(checked, way, interval)),
        size_bytes=form.parts().size_bytes,
        row_us=row_us(form, prepared),
        checked=pack_checked(checked) if checked else {},
        held_out=held_out,
        tested=np.log(answer.value),
    )


def row_us(form: Form, prepared: Prepared) -> float:
    """Microseconds of this machine for one prediction: compared only with others of the same machine."""
    first = prepared.test.inputs[0]
    return 1e6 * processor_seconds(lambda: form.one(first), time.thread_time)


def way_beyond(prepared: Prepared, checked: Checked | None, default: str) -> str:
    """What to predict beyond the range: what a check says, else the default, unless the quantity leaves no choice."""
    return chosen_way(checked, default) if prepared.way is None else prepared.way


def _interval(prepared: Prepared, held_out: Array, level: float = LEVEL) -> Interval:
    table = prepared.held_out
    rows = HeldOut(held_out, table.target, *prepared.held_out_place, table.groups)
    if prepared.folds is not None:
        return calibrated_in_folds(rows, prepared.folds, level)
    chosen_by = len(prepared.validation)
    return calibrated(rows.take(slice(chosen_by)), rows.take(slice(chosen_by, None)), level)


def at_level(candidate: Candidate, prepared: Prepared, level: float) -> Deployed:
    """What ships, with an interval of another level; beyond the range it widens as before."""
    deployed = deployed_of(candidate)
    interval = _interval(prepared, held_out_of(candidate, prepared), level)
    return replace(deployed, interval=replace(interval, widening=deployed.interval.widening))


def held_out_of(candidate: Candidate, prepared: Prepared) -> Array:
    """What a candidate has kept; one of an earlier version that kept nothing has not learned from these rows."""
    if candidate.held_out is not None:
        return candidate.held_out
    return np.log(deployed_of(candidate).predict(prepared.held_out.inputs))


def validation_values(held_out: Array, prepared: Prepared) -> Array:
    """What was predicted of the rows that are chosen by, without having learned from them."""
    return np.exp(held_out[: len(prepared.validation)])


def unseen(candidate: Candidate, prepared: Prepared) -> tuple[Table, Array]:
    """Rows that nothing was chosen by, with what was predicted of them without having learned from them."""
    source, rows = prepared.source.table, prepared.rows
    calibration = np.exp(held_out_of(candidate, prepared)[-len(prepared.calibration) :])
    table = source.take(np.concatenate([rows.calibration, rows.test]))
    return table, np.concatenate([calibration, tested_values(candidate, prepared)])


def with_test_certainty(candidate: Candidate, prepared: Prepared) -> Candidate:
    """The same with the confidence interval of its error on test layers."""
    scores, test = scores_of(candidate), prepared.test
    found = with_certainty(scores.test, tested_values(candidate, prepared), test.target, test.groups)
    return replace(candidate, scores=replace(scores, test=found).told)


def tested_values(candidate: Candidate, prepared: Prepared) -> Array:
    """What ships predicts of test rows."""
    if candidate.tested is None:
        return deployed_of(candidate).predict(prepared.test.inputs)
    return np.exp(candidate.tested)


def scored_again(candidate: Candidate, prepared: Prepared) -> Candidate:
    """The same with the scores of what it ships now; what it did beyond the least work stays as it was."""
    deployed, held_out = deployed_of(candidate), held_out_of(candidate, prepared)
    answer = deployed.answer(prepared.test.inputs)
    scores = _scores(deployed, prepared, held_out, answer, scores_of(candidate).extrapolation)
    return replace(candidate, scores=scores, tested=np.log(answer.value))


def _scores(
    deployed: Deployed, prepared: Prepared, held_out: Array, answer: Answer, extrapolated: Extrapolation | None
) -> ShippedScores:
    """The errors and the coverage of what ships; of rows to choose by, those of what has not learned from them."""
    test = prepared.test
    known = prepared.source.never_calm
    never_calm = None if known is None else known[prepared.rows.test]

    def of_test(rows: Flags) -> Scores | None:
        return score(answer.value[rows], test.target[rows]) if rows.any() else None

    return ShippedScores(
        validation=score(validation_values(held_out, prepared), prepared.validation.target),
        test=score(answer.value, test.target),
        coverage=interval_coverage(deployed, answer, test.target),
        test_inside=of_test(answer.inside),
        test_outside=of_test(~answer.inside),
        outside=float(np.mean(~answer.inside)),
        extrapolation=extrapolated,
        test_calm=None if never_calm is None else of_test(~never_calm),
        test_never_calm=None if never_calm is None else of_test(never_calm),
        never_calm=None if never_calm is None else float(np.mean(never_calm)),
    ).told
