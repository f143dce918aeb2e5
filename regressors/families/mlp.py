"""A plain multilayer perceptron, trained like MEDN and as large: what MEDN's structure is worth shows against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.network.design import SETTINGS
from medn.regressors.networks import NetworkRegressor, fit_networks
from medn.regressors.regressor import Effort, Fitted, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class Perceptron(NetworkRegressor):
    name = "mlp"
    description = "plain multilayer perceptron on log-scaled inputs"
    is_late = True
    fixable = {name: SETTINGS[name] for name in ("hidden", "epochs", "patience", "parameter_limit")}
    defaults = {"width": 128, "blocks": 2, "learning_rate": 5e-3, "weight_decay": 0.1}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "width": trial.suggest_categorical("width", [32, 64, 96, 128, 192]),
            "blocks": trial.suggest_int("blocks", 1, 3),
            "learning_rate": trial.suggest_float("learning_rate", 1e-3, 1e-2, log=True),
            "weight_decay": trial.suggest_float("weight_decay", 2e-2, 0.5, log=True),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        plain = {"residual": False, "tasks": (), "relative_share": 0.0, "frequencies": 0, "input_scale": False}
        tables = {"kind": (train, validation)}
        return fit_networks(tables, {**plain, **self.defaults, **settings}, effort)["kind"]
