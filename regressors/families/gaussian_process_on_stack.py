"""A Gaussian process on top of what known devices take: it learns what their weighted mean leaves over."""

from __future__ import annotations

import numpy as np

from medn.core.table import Table
from medn.regressors.fitted import Learned, limited_threads, thinned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.residual_process import ResidualProcess
from medn.regressors.stacking import fit_on_stack


@regressors.register
class GaussianProcessOnStack(Regressor):
    name = "gaussian_process_on_stack"
    description = "a Gaussian process on what the weighted mean of known devices leaves over"
    extrapolates = True
    needs_sources = True
    packages = ("scipy",)
    defaults = {"spread": 1.0}
    """`spread` is how far, in factors of e, length scales may lie from the typical one."""
    largest = 12_000

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_stack(self._process, train, validation, settings, effort)

    def _process(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        table = thinned(train, self.largest, effort.seed)
        with limited_threads(effort):
            kernel = ResidualProcess.fit(table, np.log(table.target), settings["spread"], effort).kernel()
        return Learned.from_form(kernel)
