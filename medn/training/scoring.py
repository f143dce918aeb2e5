"""What a deployed predictor is worth: every error and coverage that any verb tells is worked out here, once."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from medn.core.metrics import Scores, score
from medn.core.processor_time import processor_seconds
from medn.core.ranges import Flags
from medn.deployed.beyond import HELD
from medn.deployed.calibration import UNCALIBRATED, calibrated, interval_coverage
from medn.deployed.candidate import Candidate
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
) -> Candidate:
    """The candidate with this form: calibrated on rows that nothing was chosen by, and scored.

    A check says what to predict beyond the range and how wide to be there; without one, the default is done.
    """
    way = chosen_way(checked, default) if prepared.way is None else prepared.way
    uncalibrated = Deployed(form, prepared.range, UNCALIBRATED, blank.facts.constants, way, roofline)
    deployed = calibrated(uncalibrated, prepared.validation, prepared.calibration)
    interval = replace(deployed.interval, widening=widening(checked, way, deployed.interval))
    deployed = replace(deployed, interval=interval)
    first = prepared.test.inputs[0]
    scores = shipped_scores(deployed, prepared, extrapolation(checked, way, interval))
    return replace(
        blank,
        deployed=deployed,
        scores=scores,
        size_bytes=form.parts().size_bytes,
        row_us=1e6 * processor_seconds(lambda: form.one(first), time.thread_time),
        checked=pack_checked(checked) if checked else {},
    )


def shipped_scores(deployed: Deployed, prepared: Prepared, extrapolated: Extrapolation | None = None) -> ShippedScores:
    """The errors and the coverage of what ships."""
    validation, test = prepared.validation, prepared.test
    answer = deployed.answer(test.inputs)

    def of_test(rows: Flags) -> Scores | None:
        return score(answer.value[rows], test.target[rows]) if rows.any() else None

    return ShippedScores(
        validation=score(deployed.predict(validation.inputs), validation.target),
        test=score(answer.value, test.target),
        coverage=interval_coverage(deployed, answer, test.target),
        test_inside=of_test(answer.inside),
        test_outside=of_test(~answer.inside),
        outside=float(np.mean(~answer.inside)),
        extrapolation=extrapolated,
    ).told
