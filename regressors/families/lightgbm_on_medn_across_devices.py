"""LightGBM on top of the new device's decoder: it learns what the network of known devices leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.lightgbm import LightGBM
from medn.regressors.families.lightgbm_on_stack import LightGBMOnStack
from medn.regressors.fitted import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.shared_encoder import beside, shared_of
from medn.regressors.sources import sources_of
from medn.regressors.stacking import fit_on

if TYPE_CHECKING:
    import optuna


@regressors.register
class LightGBMOnMednAcrossDevices(Regressor):
    name = "lightgbm_on_medn_across_devices"
    description = "LightGBM on what a decoder on the encoder of known devices leaves over"
    extrapolates = True
    needs_sources = True
    needs_source_rows = True
    share = 3.0
    packages = ("lightgbm",)
    defaults = LightGBMOnStack.defaults
    for_many_rows = LightGBM.for_many_rows

    def suggest(self, trial: optuna.Trial) -> Settings:
        return LightGBM().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        sources, shared = sources_of(train)[0], shared_of(train)
        stack = beside(sources, shared.view, shared.network(train, *shared.decoder(train)))
        return fit_on(stack, LightGBM().fit, train, validation, settings, effort)
