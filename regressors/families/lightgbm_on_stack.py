"""LightGBM on top of what known devices take: it learns what their weighted mean leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.lightgbm import LightGBM
from medn.regressors.fitted import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.stacking import fit_on_stack

if TYPE_CHECKING:
    import optuna


@regressors.register
class LightGBMOnStack(Regressor):
    name = "lightgbm_on_stack"
    description = "LightGBM on what the weighted mean of known devices leaves over"
    extrapolates = True
    needs_sources = True
    share = 3.0
    packages = ("lightgbm",)
    defaults = {**LightGBM.defaults, "num_leaves": 15, "lambda_l2": 3.0}
    for_many_rows = LightGBM.for_many_rows

    def suggest(self, trial: optuna.Trial) -> Settings:
        return LightGBM().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_stack(LightGBM().fit, train, validation, settings, effort)
