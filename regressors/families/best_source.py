"""The known device that is most alike, with a factor and a power of its seconds."""

from __future__ import annotations

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.stacking import single_source


@regressors.register
class BestSource(Regressor):
    name = "best_source"
    description = "the known device that is most alike, corrected by a factor and a power"
    extrapolates = True
    needs_sources = True
    share = 0.2

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return Learned.from_form(single_source(train))
