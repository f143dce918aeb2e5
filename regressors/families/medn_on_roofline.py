"""MEDN on top of the roofline: it learns what the roofline leaves over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.families.medn import Medn
from medn.regressors.fitted import Learned
from medn.regressors.networks import NetworkRegressor
from medn.regressors.on_roofline import fit_on_roofline
from medn.regressors.regressor import Effort, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class MednOnRoofline(NetworkRegressor):
    name = "medn_on_roofline"
    description = "multi-task encoder-decoder network on what the roofline leaves over"
    share = 4.0
    packages = ("scipy", "torch")
    defaults = Medn.defaults

    def suggest(self, trial: optuna.Trial) -> Settings:
        return Medn().suggest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        return fit_on_roofline(Medn().fit, train, validation, settings, effort)
