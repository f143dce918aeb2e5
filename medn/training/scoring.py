"""What a deployed predictor is worth: every error and coverage that any verb tells is worked out here, once."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from medn.core.intervals import LEVEL
from medn.core.metrics import Scores, score
from medn.core.processor_time import processor_seconds
from medn.core.ranges import Flags
from medn.core.table import Array, Table
from medn.deployed.beyond import HELD
from medn.deployed.calibration import UNCALIBRATED, calibrated, calibrated_in_folds, interval_coverage
from medn.deployed.candidate import Candidate, deployed_of
from medn.deployed.checked import Checked, chosen_way, extrapolation, pack_checked, widening
from medn.deployed.deployed import Deployed
from medn.deployed.facts import Extrapolation, ShippedScores
from medn.regressors.form import Form
from medn.training.prepared import Prepared


def judged(
    blank: Candidate,
    prepared: Prepared,
    form: Form,
    roofline: Form | None,
    default: str = HELD,
    checked: Checked | None = None,
    out_of_fold: Array | None = None,
) -> Candidate:
    """The candidate with this form: calibrated on rows that nothing was chosen by, and scored.

    A check says what to predict beyond the range and how wide to be there; without one, the default is done. Where rows
    are in folds, what was predicted of them out-of-fold is what is calibrated by and scored.
    """
    way = chosen_way(checked, default) if prepared.way is None else prepared.way
    uncalibrated = Deployed(form, prepared.range, UNCALIBRATED, blank.facts.constants, way, roofline)
    deployed = _calibrated(uncalibrated, prepared, out_of_fold)
    interval = replace(deployed.interval, widening=widening(checked, way, deployed.interval))
    deployed = replace(deployed, interval=interval)
    first = prepared.test.inputs[0]
    scores = shipped_scores(deployed, prepared, extrapolation(checked, way, interval), out_of_fold)
    return replace(
        blank,
        deployed=deployed,
        scores=scores,
        size_bytes=form.parts().size_bytes,
        row_us=1e6 * processor_seconds(lambda: form.one(first), time.thread_time),
        checked=pack_checked(checked) if checked else {},
        out_of_fold=out_of_fold,
    )


def _calibrated(deployed: Deployed, prepared: Prepared, out_of_fold: Array | None, level: float = LEVEL) -> Deployed:
    if out_of_fold is None or prepared.folds is None:
        return calibrated(deployed, prepared.validation, prepared.calibration, level)
    return calibrated_in_folds(deployed, prepared.train, out_of_fold, prepared.fold_distance, prepared.folds, level)


def at_level(candidate: Candidate, prepared: Prepared, level: float) -> Deployed:
    """What ships, with an interval of another level; beyond the range it widens as before."""
    deployed = deployed_of(candidate)
    found = _calibrated(deployed, prepared, candidate.out_of_fold, level)
    return replace(found, interval=replace(found.interval, widening=deployed.interval.widening))


def validation_values(deployed: Deployed, prepared: Prepared, out_of_fold: Array | None) -> Array:
    """What was predicted of the rows that are chosen by, without having learned from them."""
    return deployed.predict(prepared.validation.inputs) if out_of_fold is None else np.exp(out_of_fold)


def unseen(candidate: Candidate, prepared: Prepared) -> tuple[Table, Array]:
    """Rows that nothing was chosen by, with what was predicted of them without having learned from them."""
    source, rows, deployed = prepared.source.table, prepared.rows, deployed_of(candidate)
    table = source.take(np.concatenate([rows.calibration, rows.test]))
    if candidate.out_of_fold is None:
        return table, deployed.predict(table.inputs)
    return table, np.concatenate([np.exp(candidate.out_of_fold), deployed.predict(prepared.test.inputs)])


def shipped_scores(
    deployed: Deployed,
    prepared: Prepared,
    extrapolated: Extrapolation | None = None,
    out_of_fold: Array | None = None,
) -> ShippedScores:
    """The errors and the coverage of what ships."""
    test = prepared.test
    answer = deployed.answer(test.inputs)

    def of_test(rows: Flags) -> Scores | None:
        return score(answer.value[rows], test.target[rows]) if rows.any() else None

    return ShippedScores(
        validation=score(validation_values(deployed, prepared, out_of_fold), prepared.validation.target),
        test=score(answer.value, test.target),
        coverage=interval_coverage(deployed, answer, test.target),
        test_inside=of_test(answer.inside),
        test_outside=of_test(~answer.inside),
        outside=float(np.mean(~answer.inside)),
        extrapolation=extrapolated,
    ).told
