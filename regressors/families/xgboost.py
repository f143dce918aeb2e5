"""Gradient boosting by XGBoost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress
from medn.regressors.forms.trees import Tree, Trees, tree
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class XGBoost(Regressor):
    name = "xgboost"
    description = "gradient boosting by XGBoost"
    share = 2.0
    packages = ("xgboost",)
    defaults = {
        "objective": "l2",
        "learning_rate": 0.05,
        "max_leaves": 63,
        "min_child_weight": 3.0,
        "colsample_bynode": 0.7,
        "subsample": 0.9,
        "lambda": 1.0,
        "max_bin": 256,
        "most_trees": 3000,
        "patience": 100,
    }
    for_many_rows = {"learning_rate": 0.1, "max_leaves": 127, "min_child_weight": 10.0, "colsample_bynode": 0.5}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            **self.defaults,
            "objective": trial.suggest_categorical("objective", ["l2", "l1"]),
            "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.2, log=True),
            "max_leaves": trial.suggest_int("max_leaves", 7, 255, log=True),
            "min_child_weight": trial.suggest_float("min_child_weight", 1.0, 50.0, log=True),
            "colsample_bynode": trial.suggest_float("colsample_bynode", 0.3, 1.0),
            "subsample": trial.suggest_float("subsample", 0.5, 1.0),
            "lambda": trial.suggest_float("lambda", 1e-3, 30.0, log=True),
            "max_bin": trial.suggest_categorical("max_bin", [128, 256, 512, 1024]),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        import xgboost

        class StopInTime(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return progress.is_over

        def measure(predicted: Array, data: Any) -> tuple[str, float]:
            return "error", progress.step(base + predicted)

        logs = np.log(train.target)
        base = float(logs.mean())
        progress = Progress(validation, effort, patience=settings["patience"])
        # A validation row is needed for the metric to be called at all.
        checked = validation if len(validation) else train
        data = xgboost.QuantileDMatrix(train.inputs, logs - base, max_bin=settings["max_bin"], nthread=effort.threads)
        booster = xgboost.train(
            _parameters(settings, effort),
            data,
            num_boost_round=settings["most_trees"],
            evals=[(xgboost.DMatrix(checked.inputs, np.log(checked.target) - base, nthread=effort.threads), "held")],
            custom_metric=measure,
            callbacks=[StopInTime()],
            verbose_eval=False,
        )[: progress.best_step]

        def log_value(inputs: Array) -> Array:
            return np.asarray(base + booster.inplace_predict(inputs.astype(np.float32)), dtype=np.float64)

        return Learned(
            log_value,
            lambda: Trees.from_trees(_trees(booster), base, train.inputs.shape[1]),
            tuple(progress.errors),
        )


def _parameters(settings: Settings, effort: Effort) -> dict[str, Any]:
    own = ("objective", "most_trees", "patience")
    return {
        "objective": {"l2": "reg:squarederror", "l1": "reg:absoluteerror"}[settings["objective"]],
        **{name: value for name, value in settings.items() if name not in own},
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "base_score": 0.0,
        "disable_default_eval_metric": True,
        "seed": effort.seed,
        "nthread": effort.threads,
        "verbosity": 0,
    }


def _trees(booster: Any) -> list[Tree]:
    model = json.loads(bytes(booster.save_raw("json")))
    return [_tree(grown) for grown in model["learner"]["gradient_booster"]["model"]["trees"]]


def _tree(grown: Any) -> Tree:
    """Here a value goes left when it is below the threshold, and leaves keep their value where splits keep that."""
    numbers = np.array(grown["split_conditions"], dtype=np.float32)
    below = np.nextafter(numbers, np.float32(-np.inf))
    return tree(grown["split_indices"], below, grown["left_children"], grown["right_children"], numbers)
