"""Support vector regression with bell-shaped kernels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array, Table
from medn.regressors.encoding import Encoding
from medn.regressors.fitted import Learned, thinned
from medn.regressors.forms.kernel import Kernel
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna

ITERATIONS_PER_SECOND = 20_000
"""A careful guess, to hold a hard fit to its time."""


@regressors.register
class SupportVectors(Regressor):
    name = "svr"
    description = "support vector regression with a radial kernel"
    is_late = True
    extrapolates = True
    share = 0.5
    packages = ("sklearn",)
    defaults = {"C": 10.0, "gamma": 0.3, "epsilon": 0.02}
    """`gamma` is per encoded column."""
    largest = 4000

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "C": trial.suggest_float("C", 0.1, 300.0, log=True),
            "gamma": trial.suggest_float("gamma", 0.01, 3.0, log=True),
            "epsilon": trial.suggest_float("epsilon", 0.003, 0.1, log=True),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn.svm import SVR

        table = thinned(train, self.largest, effort.seed)
        encoding = Encoding.fit(table.schema, table.inputs)
        logs = np.log(table.target)
        middle = float(logs.mean())
        gamma = settings["gamma"] / max(encoding.width, 1)
        model = SVR(
            C=settings["C"],
            gamma=gamma,
            epsilon=settings["epsilon"],
            cache_size=500,
            max_iter=max(1000, int(effort.seconds_left * ITERATIONS_PER_SECOND)),
        )
        # Trained on what is saved: the support vectors fit float32.
        points: NDArray[np.float32] = encoding.transform(table.inputs).astype(np.float32)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solver terminated early")  # it ran out of its time
            model.fit(points.astype(np.float64), logs - middle)

        def log_value(inputs: Array) -> Array:
            return np.asarray(middle + model.predict(encoding.transform(inputs)))

        def form() -> Kernel:
            constant = middle + float(model.intercept_[0])
            return Kernel(encoding, points[model.support_], model.dual_coef_[0], constant, gamma)

        return Learned(log_value, form)
