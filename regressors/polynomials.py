"""Fitting a polynomial of the encoded inputs with any linear model of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.encoding import Encoding
from medn.regressors.fitted import Learned, limited_threads
from medn.regressors.forms.polynomial import Polynomial, products
from medn.regressors.regressor import Effort

MARGIN = 3.0
"""A polynomial may leave the measured latencies by a factor of e to this, some twenty."""


def fit_polynomial(table: Table, degree: int, model: Any, effort: Effort) -> Learned:
    """`model` has `fit`, `predict`, `coef_` and `intercept_`."""
    encoding = Encoding.fit(table.schema, table.inputs)
    last = 1 if degree == 1 else encoding.width + 1
    pairs = [(first, second) for first in range(last) for second in range(max(first, 1), encoding.width + 1)]
    first, second = np.array(pairs, dtype=np.int32).T
    logs = np.log(table.target)
    lowest, highest = float(logs.min()) - MARGIN, float(logs.max()) + MARGIN
    with limited_threads(effort):
        model.fit(products(encoding.transform(table.inputs), first, second), logs)

    def log_value(inputs: Array) -> Array:
        predicted = model.predict(products(encoding.transform(inputs), first, second))
        return np.asarray(np.clip(predicted, lowest, highest))

    def form() -> Polynomial:
        used = np.flatnonzero(model.coef_)
        # The product of place 0 with itself is one: its weight is the constant.
        firsts, seconds = (np.append(0, places[used]).astype(np.int32) for places in (first, second))
        weights = np.append(model.intercept_, model.coef_[used])
        return Polynomial(encoding, firsts, seconds, weights, lowest, highest)

    return Learned(log_value, form)
