"""A Gaussian process on what the plain roofline leaves over: the strongest family from few measured layers."""

from __future__ import annotations

import numpy as np

from medn.core.table import Table
from medn.regressors.families.roofline import plain_roofline
from medn.regressors.fitted import Learned, limited_threads, thinned
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.residual_process import ResidualProcess


@regressors.register
class GaussianProcess(Regressor):
    name = "gaussian_process"
    description = "a Gaussian process (Matern 5/2, a length scale per input) on what the plain roofline leaves over"
    extrapolates = True
    share = 1.0
    packages = ("scipy",)
    defaults = {"spread": 1.0}
    """`spread` is how far, in factors of e, length scales may lie from the typical one."""
    largest = 12_000

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        table = thinned(train, self.largest, effort.seed)
        base = plain_roofline(train, effort)  # without one, it learns the latency itself
        logs = np.log(table.target) - (base.log_value(table.inputs) if base else 0.0)
        with limited_threads(effort):
            kernel = ResidualProcess.fit(table, logs, settings["spread"], effort).kernel()
        return Learned.from_form(WeightedSum([base, kernel]) if base else kernel)
