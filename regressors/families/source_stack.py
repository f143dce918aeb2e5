"""All known devices together: a weighted mean of what they take, the weights drawn towards equal ones."""

from __future__ import annotations

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.stacking import stacked


@regressors.register
class SourceStack(Regressor):
    name = "source_stack"
    description = "a weighted mean of what known devices take, drawn towards the plain mean"
    extrapolates = True
    needs_sources = True
    share = 0.2

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return Learned.from_form(stacked(train))
