"""What the tree families of scikit-learn share: growing more and more trees while time lasts, and the export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress
from medn.regressors.forms.trees import Tree, Trees, tree
from medn.regressors.regressor import Effort, Settings

if TYPE_CHECKING:
    import optuna

TREES_AT_ONCE = 10

SETTINGS = {"trees": 100, "min_samples_leaf": 1, "max_features": 0.7, "max_leaf_nodes": 2000}


def suggest_forest(trial: optuna.Trial) -> Settings:
    return {
        "trees": trial.suggest_int("trees", 20, 200, log=True),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 10, log=True),
        "max_features": trial.suggest_float("max_features", 0.3, 1.0),
        "max_leaf_nodes": trial.suggest_int("max_leaf_nodes", 100, 5000, log=True),
    }


def grow_forest(model_class: Any, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
    model = model_class(
        n_estimators=0,
        min_samples_leaf=settings["min_samples_leaf"],
        max_features=settings["max_features"],
        max_leaf_nodes=settings["max_leaf_nodes"],
        random_state=effort.seed,
        n_jobs=effort.threads,
        warm_start=True,
    )
    logs = np.log(train.target)
    # More trees are never worse, so only the time ends the growing early.
    progress = Progress(validation, effort, patience=settings["trees"], report_every=1)
    while model.n_estimators < settings["trees"] and not progress.is_over:
        model.n_estimators = min(model.n_estimators + TREES_AT_ONCE, settings["trees"])
        model.fit(train.inputs, logs)
        progress.step(model.predict(validation.inputs) if len(validation) else np.empty(0))
    return from_trees(model, model.estimators_, train)


def from_trees(model: Any, estimators: list[Any], train: Table) -> Learned:
    """The mean of scikit-learn's trees."""
    base = float(np.log(train.target).mean())

    def log_value(inputs: Array) -> Array:
        return np.asarray(model.predict(inputs), dtype=np.float64)

    def form() -> Trees:
        grown = (_tree(estimator.tree_, base, len(estimators)) for estimator in estimators)
        return Trees.from_trees(grown, base, train.inputs.shape[1])

    return Learned(log_value, form)


def _tree(grown: Any, base: float, count: int) -> Tree:
    values = (grown.value[:, 0, 0] - base) / count
    left, right = grown.children_left.tolist(), grown.children_right.tolist()
    return tree(grown.feature.tolist(), grown.threshold, left, right, values)
