"""CatBoost on top of the roofline: it learns what the roofline leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.catboost import CatBoost
from medn.regressors.fitted import Learned
from medn.regressors.on_roofline import fit_on_roofline
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class CatBoostOnRoofline(Regressor):
    name = "catboost_on_roofline"
    description = "CatBoost on what the roofline leaves over"
    extrapolates = True
    share = 2.0
    packages = ("catboost", "scipy")
    extra = "catboost"
    defaults = CatBoost.defaults
    for_many_rows = CatBoost.for_many_rows

    def suggest(self, trial: optuna.Trial) -> Settings:
        return CatBoost().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_roofline(CatBoost().fit, train, validation, settings, effort)
