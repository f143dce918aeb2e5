"""LightGBM on top of the roofline: it learns what the roofline leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.lightgbm import LightGBM
from medn.regressors.fitted import Learned
from medn.regressors.on_roofline import fit_on_roofline
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class LightGBMOnRoofline(Regressor):
    name = "lightgbm_on_roofline"
    description = "LightGBM on what the roofline leaves over"
    extrapolates = True
    share = 3.0
    learns_further = True
    further_rows = 5000
    packages = ("scipy", "lightgbm")
    defaults = LightGBM.defaults
    for_many_rows = LightGBM.for_many_rows

    def suggest(self, trial: optuna.Trial) -> Settings:
        return LightGBM().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_roofline(LightGBM().fit, train, validation, settings, effort)
