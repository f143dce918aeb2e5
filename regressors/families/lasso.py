"""Lasso regression on the encoded inputs and their products: most of the weights become zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.fitted import Learned, thinned
from medn.regressors.polynomials import fit_polynomial
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class Lasso(Regressor):
    name = "lasso"
    description = "lasso regression on logarithms of the inputs and their products, a small formula"
    extrapolates = True
    share = 0.3
    packages = ("sklearn",)
    defaults = {"degree": 2, "alpha": 3e-3}
    largest = 10_000

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "degree": trial.suggest_int("degree", 1, 2),
            "alpha": trial.suggest_float("alpha", 3e-4, 0.1, log=True),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn import linear_model

        # Few passes and a loose tolerance: the last digits of a weight cost most of the time and none of the accuracy.
        model = linear_model.Lasso(alpha=settings["alpha"], precompute=True, max_iter=300, tol=1e-3)
        return fit_polynomial(thinned(train, self.largest, effort.seed), settings["degree"], model, effort)
