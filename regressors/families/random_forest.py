"""A random forest by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.forests import SETTINGS, grow_forest, suggest_forest
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class RandomForest(Regressor):
    name = "random_forest"
    description = "a forest of trees, each on its own sample of the rows"
    is_late = True
    packages = ("sklearn",)
    defaults = SETTINGS

    def suggest(self, trial: optuna.Trial) -> Settings:
        return suggest_forest(trial)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn.ensemble import RandomForestRegressor

        return grow_forest(RandomForestRegressor, train, validation, settings, effort)
