"""Ridge regression on the encoded inputs and their products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.table import Table
from medn.regressors.fitted import Learned, thinned
from medn.regressors.polynomials import fit_polynomial
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class Ridge(Regressor):
    name = "ridge"
    description = "ridge regression on logarithms of the inputs and their products"
    extrapolates = True
    share = 0.3
    packages = ("sklearn",)
    defaults = {"degree": 2, "alpha": 1.0}
    largest = 20_000

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "degree": trial.suggest_int("degree", 1, 2),
            "alpha": trial.suggest_float("alpha", 1e-3, 1e3, log=True),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn import linear_model

        model = linear_model.Ridge(alpha=settings["alpha"])
        return fit_polynomial(thinned(train, self.largest, effort.seed), settings["degree"], model, effort)
