"""Deployed predictors with and without intervals, for tests of what ships."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from medn.core.intervals import LEVEL, Interval, Spread
from medn.core.table import Table
from medn.deployed.calibration import HeldOut
from medn.deployed.calibration import calibrated as calibrated_interval
from medn.deployed.deployed import Deployed

UNCALIBRATED = Interval(LEVEL, 0.0, 0, Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0))
"""Stands in for the interval of what is not calibrated: no width at all."""


def calibrated(deployed: Deployed, validation: Table, calibration: Table) -> Deployed:
    """The same with the interval that its own predictions of these rows call for."""
    rows = [
        HeldOut(np.log(deployed.predict(part.inputs)), part.target, *deployed.range.place(part.inputs), part.groups)
        for part in (validation, calibration)
    ]
    return replace(deployed, interval=calibrated_interval(*rows))
