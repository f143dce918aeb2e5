"""One latency for everything, the median weighted for relative errors: what every other regressor has to beat."""

from __future__ import annotations

import math

from medn.core.metrics import best_constant
from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.forms.constant import Constant
from medn.regressors.regressor import Effort, Regressor, Settings, regressors


@regressors.register
class Median(Regressor):
    name = "median"
    description = "the one latency with the smallest mean relative error, a baseline"
    share = 0.1

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return Learned.from_form(Constant(math.log(best_constant(train.target))))
