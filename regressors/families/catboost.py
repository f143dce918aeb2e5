"""Gradient boosting by CatBoost: trees that ask the same question on a whole level."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress
from medn.regressors.forms.oblivious_trees import ObliviousTree, ObliviousTrees
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna

TREES_AT_ONCE = 5
"""The validation rows are looked at after so many trees: that takes about as long as a tree of few rows."""


@regressors.register
class CatBoost(Regressor):
    name = "catboost"
    description = "gradient boosting by CatBoost"
    share = 2.0
    packages = ("catboost",)
    extra = "catboost"
    defaults = {
        "objective": "l2",
        "learning_rate": 0.05,
        "depth": 5,
        "l2_leaf_reg": 3.0,
        # Latencies have little noise, and disturbed splits cost more than they are worth.
        "random_strength": 0.0,
        "colsample_bylevel": 0.5,
        "subsample": 0.8,
        "border_count": 254,
        "most_trees": 6000,
        "patience": 20,
    }
    """`patience` counts steps of several trees."""
    for_many_rows = {"learning_rate": 0.1, "depth": 6}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            **self.defaults,
            "objective": trial.suggest_categorical("objective", ["l2", "l1"]),
            "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.2, log=True),
            "depth": trial.suggest_int("depth", 3, 10),
            "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0.1, 30.0, log=True),
            "random_strength": trial.suggest_float("random_strength", 0.0, 2.0),
            "colsample_bylevel": trial.suggest_float("colsample_bylevel", 0.2, 1.0),
            "subsample": trial.suggest_float("subsample", 0.5, 1.0),
            "border_count": trial.suggest_categorical("border_count", [128, 254, 1024]),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        import catboost

        latest: Array | None = None
        counts: list[int] = []
        failures: list[Exception] = []

        # CatBoost works with a copy of the metric, so what it is told is kept outside of it.
        class Measure:
            def evaluate(self, predicted: tuple[Array], target: Array, weight: Any) -> tuple[float, float]:
                nonlocal latest
                latest = predicted[0].copy()
                return 0.0, 1.0

            def get_final_error(self, error: float, weight: float) -> float:
                return error

            def is_max_optimal(self) -> bool:
                return False

        class StopInTime:
            def after_iteration(self, info: Any) -> bool:
                nonlocal latest
                # The rows held out are measured after those learned from, so that theirs are the latest.
                if latest is not None:
                    counts.append(info.iteration)
                    try:
                        progress.step(base + latest)
                    except Exception as failure:  # CatBoost would make a string of it
                        failures.append(failure)
                    latest = None
                return not failures and not progress.is_over

        logs = np.log(train.target)
        base = float(logs.mean())
        progress = Progress(validation, effort, patience=settings["patience"], report_every=2)
        held_out = catboost.Pool(validation.inputs, np.log(validation.target) - base) if len(validation) else None
        booster = catboost.CatBoost({**_parameters(settings, effort), "eval_metric": Measure()})
        with warnings.catch_warnings():
            # numba would only make a metric faster that computes.
            warnings.filterwarnings("ignore", message="Failed to import numba")
            booster.fit(catboost.Pool(train.inputs, logs - base), eval_set=held_out, callbacks=[StopInTime()])
        if failures:
            raise failures[0]
        count = counts[progress.best_step - 1]

        def log_value(inputs: Array) -> Array:
            return base + np.asarray(booster.predict(inputs, ntree_end=count, thread_count=effort.threads))

        errors = tuple(progress.errors)
        return Learned(log_value, lambda: _form(booster, base, count, train.inputs.shape[1]), errors)


def _parameters(settings: Settings, effort: Effort) -> dict[str, Any]:
    own = ("objective", "most_trees", "patience")
    return {
        "loss_function": {"l2": "RMSE", "l1": "MAE"}[settings["objective"]],
        **{name: value for name, value in settings.items() if name not in own},
        "iterations": settings["most_trees"],
        "grow_policy": "SymmetricTree",
        "boosting_type": "Plain",
        "bootstrap_type": "MVS",
        "boost_from_average": False,
        "allow_const_label": True,
        "metric_period": TREES_AT_ONCE,
        "random_seed": effort.seed,
        "thread_count": effort.threads,
        "allow_writing_files": False,
        "use_best_model": False,
        "logging_level": "Silent",
    }


def _form(booster: Any, base: float, count: int, width: int) -> ObliviousTrees:
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        booster.save_model(str(path), format="json")
        model = json.loads(path.read_text())
    scale, (bias,) = model["scale_and_bias"]
    trees = [_tree(grown, scale) for grown in model["oblivious_trees"][:count]]
    return ObliviousTrees.from_trees(trees, base + bias, width)


def _tree(grown: Any, scale: float) -> ObliviousTree:
    """All features are numbers here, so that their place among the numbers is that among the inputs."""
    splits = grown["splits"] or ()  # none at all where nothing could be told apart
    leaves = [scale * value for value in grown["leaf_values"]]
    return [split["float_feature_index"] for split in splits], [split["border"] for split in splits], leaves
