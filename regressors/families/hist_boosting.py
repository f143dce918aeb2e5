"""Gradient boosting on histograms by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress, limited_threads
from medn.regressors.forms.trees import Tree, Trees, tree
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna

TREES_AT_ONCE = 25


@regressors.register
class HistBoosting(Regressor):
    name = "hist_boosting"
    description = "gradient boosting on histograms by scikit-learn"
    is_late = True
    packages = ("sklearn",)
    defaults = {
        "loss": "squared_error",
        "learning_rate": 0.08,
        "max_leaf_nodes": 31,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        "max_features": 0.7,
        "most_trees": 1000,
        "patience": 4,
    }
    """`patience` counts steps of several trees."""

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            **self.defaults,
            "loss": trial.suggest_categorical("loss", ["squared_error", "absolute_error"]),
            "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
            "max_leaf_nodes": trial.suggest_int("max_leaf_nodes", 7, 127, log=True),
            "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 50, log=True),
            "l2_regularization": trial.suggest_float("l2_regularization", 1e-3, 30.0, log=True),
            "max_features": trial.suggest_float("max_features", 0.3, 1.0),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            **{name: settings[name] for name in settings if name not in ("most_trees", "patience", "min_samples_leaf")},
            min_samples_leaf=max(1, min(settings["min_samples_leaf"], len(train) // 6)),
            max_iter=0,
            early_stopping=False,
            random_state=effort.seed,
            warm_start=True,
        )
        logs = np.log(train.target)
        progress = Progress(validation, effort, settings["patience"], report_every=1)
        with limited_threads(effort):
            while model.max_iter < settings["most_trees"] and not progress.is_over:
                model.max_iter += TREES_AT_ONCE
                model.fit(train.inputs, logs)
                progress.step(model.predict(validation.inputs) if len(validation) else np.empty(0))
        # The trees after the best step are cut off; the library's own prediction then does without them too.
        del model._predictors[progress.best_step * TREES_AT_ONCE :]

        def log_value(inputs: Array) -> Array:
            return np.asarray(model.predict(inputs))

        def form() -> Trees:
            grown = [_tree(stage[0].nodes) for stage in model._predictors]
            return Trees.from_trees(grown, float(model._baseline_prediction.item()), train.inputs.shape[1])

        return Learned(log_value, form, tuple(progress.errors))


def _tree(nodes: Any) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(int)).tolist() for side in ("left", "right"))
    return tree(nodes["feature_idx"].tolist(), nodes["num_threshold"], left, right, nodes["value"])
