"""MEDN, the multi-task encoder-decoder network, one for each kind of layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.network.design import DEFAULTS
from medn.regressors.networks import NetworkRegressor, fit_networks
from medn.regressors.regressor import Effort, Fitted, Settings, regressors

if TYPE_CHECKING:
    import optuna

SEARCHED = (
    *("width", "blocks", "hidden", "frequencies", "frequency_spread"),
    *("learning_rate", "weight_decay", "relative_share"),
)


@regressors.register
class Medn(NetworkRegressor):
    name = "medn"
    description = "multi-task encoder-decoder network of its own for each kind"
    share = 4.0
    defaults = {name: DEFAULTS[name] for name in SEARCHED}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "width": trial.suggest_categorical("width", [64, 96, 128, 192, 256]),
            "blocks": trial.suggest_int("blocks", 1, 3),
            "hidden": trial.suggest_categorical("hidden", [32, 64, 128]),
            "frequencies": trial.suggest_int("frequencies", 0, 4),
            "frequency_spread": trial.suggest_float("frequency_spread", 0.03, 1.0, log=True),
            "learning_rate": trial.suggest_float("learning_rate", 2e-3, 2e-2, log=True),
            "weight_decay": trial.suggest_float("weight_decay", 2e-2, 0.5, log=True),
            "relative_share": trial.suggest_float("relative_share", 0.0, 0.8),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        return fit_networks({"kind": (train, validation)}, settings, effort)["kind"]
