"""A single decision tree by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.forests import from_trees
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class DecisionTree(Regressor):
    name = "decision_tree"
    description = "one decision tree: small and fast, coarse"
    share = 0.3
    learns_further = True
    packages = ("sklearn",)
    defaults = {"min_samples_leaf": 2, "max_leaf_nodes": 2000}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 30, log=True),
            "max_leaf_nodes": trial.suggest_int("max_leaf_nodes", 30, 5000, log=True),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn.tree import DecisionTreeRegressor

        model = DecisionTreeRegressor(
            min_samples_leaf=settings["min_samples_leaf"],
            max_leaf_nodes=settings["max_leaf_nodes"],
            random_state=effort.seed,
        )
        model.fit(train.inputs, np.log(train.target))
        return from_trees(model, [model], train)
