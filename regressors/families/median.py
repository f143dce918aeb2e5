"""The median latency for everything: the baseline that every other regressor has to beat."""

from __future__ import annotations

import numpy as np

from medn.core.table import Table
from medn.regressors.forms.constant import Constant
from medn.regressors.learned import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors


@regressors.register
class Median(Regressor):
    name = "median"
    description = "the median of the measured latencies, a baseline"
    share = 0.1

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return Learned.from_form(Constant(float(np.median(np.log(train.latency_s)))))
