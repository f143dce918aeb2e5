"""XGBoost on top of the roofline: it learns what the roofline leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.xgboost import XGBoost
from medn.regressors.fitted import Learned
from medn.regressors.on_roofline import fit_on_roofline
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class XGBoostOnRoofline(Regressor):
    name = "xgboost_on_roofline"
    description = "XGBoost on what the roofline leaves over"
    extrapolates = True
    share = 2.0
    packages = ("scipy", "xgboost")
    defaults = XGBoost.defaults
    for_many_rows = XGBoost.for_many_rows

    def suggest(self, trial: optuna.Trial) -> Settings:
        return XGBoost().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_roofline(XGBoost().fit, train, validation, settings, effort)
