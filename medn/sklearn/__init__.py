"""The regressors of medn as scikit-learn estimators, for any table of numbers.

    FamilyRegressor("gaussian_process").fit(X, y).predict(X)       any family of `medn list regressors`
    MednRegressor(width=64).fit(X, y)                              MEDN, the network
    BudgetedRegressor(max_us=20, max_kb=100).fit(X, y)             the most accurate of all within a budget

They can be cloned, put into pipelines, cross-validated and searched over. What predicts after `fit` is the deployed
form: plain arrays, without the library that trained them. Targets above 0 are learned as logarithms, others as they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.lazy import lazy_names

if TYPE_CHECKING:
    from medn.sklearn.budgeted import BudgetedRegressor as BudgetedRegressor
    from medn.sklearn.families import FamilyRegressor as FamilyRegressor
    from medn.sklearn.families import MednRegressor as MednRegressor

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "medn.sklearn.budgeted": ("BudgetedRegressor",),
        "medn.sklearn.families": ("FamilyRegressor", "MednRegressor"),
    },
    needs=("sklearn", "optuna"),
)
