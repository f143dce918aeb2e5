"""Gradient boosting by LightGBM: trees grown leaf by leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress
from medn.regressors.forms.trees import Tree, Trees, tree
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class LightGBM(Regressor):
    name = "lightgbm"
    description = "gradient boosting by LightGBM"
    share = 3.0
    packages = ("lightgbm",)
    defaults = {
        "objective": "l2",
        "learning_rate": 0.05,
        "num_leaves": 63,
        "min_child_samples": 5,
        "feature_fraction": 0.7,
        "bagging_fraction": 0.9,
        "lambda_l2": 1.0,
        "max_bin": 255,
        "most_trees": 3000,
        "patience": 100,
    }
    for_many_rows = {"learning_rate": 0.1, "num_leaves": 127, "min_child_samples": 10, "feature_fraction": 0.5}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            **self.defaults,
            "objective": trial.suggest_categorical("objective", ["l2", "l1", "huber"]),
            "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.2, log=True),
            "num_leaves": trial.suggest_int("num_leaves", 7, 255, log=True),
            "min_child_samples": trial.suggest_int("min_child_samples", 1, 50, log=True),
            "feature_fraction": trial.suggest_float("feature_fraction", 0.3, 1.0),
            "bagging_fraction": trial.suggest_float("bagging_fraction", 0.5, 1.0),
            "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 30.0, log=True),
            "max_bin": trial.suggest_categorical("max_bin", [127, 255, 511, 1023]),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        import lightgbm

        def measure(predicted: Array, data: Any) -> tuple[str, float, bool]:
            return "error", progress.step(base + predicted), False

        def stop_in_time(state: Any) -> None:
            if progress.is_over:
                raise lightgbm.callback.EarlyStopException(progress.best_step - 1, [])

        logs = np.log(train.target)
        base = float(logs.mean())
        progress = Progress(validation, effort, patience=settings["patience"])
        parameters = _parameters(settings, effort, rows=len(train))
        data = lightgbm.Dataset(train.inputs, logs - base, params=parameters)
        # A validation row is needed for the metric to be called at all.
        checked = validation if len(validation) else train
        held_out = lightgbm.Dataset(checked.inputs, np.log(checked.target) - base, reference=data, params=parameters)
        booster = lightgbm.train(
            parameters,
            data,
            num_boost_round=settings["most_trees"],
            valid_sets=[held_out],
            feval=measure,
            callbacks=[stop_in_time],
        )
        count = progress.best_step

        def log_value(inputs: Array) -> Array:
            return base + np.asarray(booster.predict(inputs, num_iteration=count, num_threads=effort.threads))

        return Learned(
            log_value,
            lambda: Trees.from_trees(_trees(booster.model_to_string(num_iteration=count)), base, train.inputs.shape[1]),
            tuple(progress.errors),
        )


def _parameters(settings: Settings, effort: Effort, rows: int) -> dict[str, Any]:
    return {
        "objective": {"l2": "regression", "l1": "regression_l1", "huber": "huber"}[settings["objective"]],
        "metric": "None",
        "learning_rate": settings["learning_rate"],
        "num_leaves": settings["num_leaves"],
        "min_child_samples": max(1, min(settings["min_child_samples"], rows // 6)),
        "feature_fraction": settings["feature_fraction"],
        "bagging_fraction": settings["bagging_fraction"],
        "bagging_freq": 1,
        "lambda_l2": settings["lambda_l2"],
        "max_bin": settings["max_bin"],
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        # From an error of about 20 % on, the huber loss grows no faster than the error.
        "alpha": 0.2,
        "seed": effort.seed,
        "num_threads": effort.threads,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def _trees(model: str) -> list[Tree]:
    """Trees out of LightGBM's text format: a `name=value value ...` line per array, a paragraph per tree."""
    paragraphs = model.split("\nend of trees")[0].split("\nTree=")[1:]
    return [
        _tree(dict(line.split("=", 1) for line in paragraph.split("\n")[1:] if "=" in line)) for paragraph in paragraphs
    ]


def _tree(lines: dict[str, str]) -> Tree:
    """Leaves are numbered apart from the splits there, as -1, -2, ...; here they come after the splits."""
    values = np.array(lines["leaf_value"].split(), dtype=np.float64)
    if len(values) == 1:
        return tree([0], [0.0], [-1], [-1], values)
    splits = len(values) - 1
    left, right = (np.array(lines[side].split(), dtype=int) for side in ("left_child", "right_child"))
    at_leaves = np.full(len(values), -1)
    return tree(
        np.concatenate([np.array(lines["split_feature"].split(), dtype=int), at_leaves]).tolist(),
        np.concatenate([np.array(lines["threshold"].split(), dtype=np.float64), np.zeros(len(values))]),
        np.concatenate([np.where(left < 0, splits - 1 - left, left), at_leaves]).tolist(),
        np.concatenate([np.where(right < 0, splits - 1 - right, right), at_leaves]).tolist(),
        np.concatenate([np.zeros(splits), values]),
    )
