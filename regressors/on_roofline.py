"""Learning what the roofline leaves over: what is fitted on top sees the ratio of the latency to the roofline's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from medn.core.table import Table
from medn.regressors.families.roofline import fit_plain_roofline
from medn.regressors.fitted import Learned
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, Fitted, Settings

Fit = Callable[[Table, Table, Settings, Effort], Fitted]


def fit_on_roofline(fit: Fit, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
    """The relative error of a ratio is that of the latency, so early stopping and reports mean the same."""
    # Without the influence of other inputs: what stands on top learns it better, and it misleads beyond the range.
    roofline = fit_plain_roofline(train, effort)

    def ratios(table: Table) -> Table:
        return replace(table, target=table.target / roofline.predict(table.inputs))

    learned = fit(ratios(train), ratios(validation), settings, effort)
    return Learned(
        lambda inputs: roofline.log_value(inputs) + np.log(learned.predict(inputs)),
        lambda: WeightedSum([roofline, learned.export()]),
        learned.step_errors,
    )
