"""What a deployed predictor is worth: every error and coverage that any verb tells is worked out here, once."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from medn.core.call_time import call_seconds
from medn.core.metrics import score
from medn.core.values import told
from medn.deployed.beyond import HELD
from medn.deployed.calibration import UNCALIBRATED, calibrated, coverage_facts
from medn.deployed.candidate import Candidate
from medn.deployed.checked import Checked, chosen_way, extrapolation_facts, pack_checked, widening
from medn.deployed.deployed import Deployed
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
    uncalibrated = Deployed(form, prepared.range, UNCALIBRATED, blank.constants, way, roofline)
    deployed = calibrated(uncalibrated, prepared.validation, prepared.calibration)
    interval = replace(deployed.interval, widening=widening(checked, way, deployed.interval))
    deployed = replace(deployed, interval=interval)
    first = prepared.test.inputs[0]
    return replace(
        scored(replace(blank, deployed=deployed), deployed, prepared),
        size_bytes=form.parts().size_bytes,
        row_us=1e6 * call_seconds(lambda: form.one(first), time.thread_time),
        extrapolation=told(extrapolation_facts(checked, way, interval)),
        checked=pack_checked(checked) if checked else {},
    )


def scored(candidate: Candidate, deployed: Deployed, prepared: Prepared) -> Candidate:
    """The candidate with the scores and the coverage of what ships."""
    validation, test = prepared.validation, prepared.test
    answer = deployed.answer(test.inputs)
    predicted = {
        "validation": (deployed.predict(validation.inputs), validation.target),
        "test": (answer.value, test.target),
    }
    for name, rows in (("test_inside", answer.inside), ("test_outside", ~answer.inside)):
        if rows.any():
            predicted[name] = answer.value[rows], test.target[rows]
    return replace(
        candidate,
        deployed=deployed,
        scores={name: told(score(*both).as_json()) for name, both in predicted.items()},
        coverage=told(coverage_facts(deployed, answer, test.target)),
        outside=float(np.mean(~answer.inside)),
    )
