"""A weighted mean on the logarithmic scale, its weights chosen on validation rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array

STEPS = 20


def choose_weights(log_predictions: Mapping[str, Array], measured_s: Array) -> dict[str, float]:
    """Greedy: whichever member lowers the validation error most gets one more share, up to `STEPS` of them.

    >>> members = {"low": np.log([0.9, 1.8]), "high": np.log([1.1, 2.2]), "far": np.log([9.0, 9.0])}
    >>> choose_weights(members, np.array([1.0, 2.0]))
    {'low': 0.5, 'high': 0.5}
    """
    total, lowest = np.zeros(len(measured_s)), np.inf
    shares: dict[str, int] = {}
    best = dict(shares)
    for step in range(1, STEPS + 1):
        errors = {
            name: float(relative_errors(np.exp((total + logs) / step), measured_s).mean())
            for name, logs in log_predictions.items()
        }
        name = min(errors, key=errors.__getitem__)
        total = total + log_predictions[name]
        shares[name] = shares.get(name, 0) + 1
        if errors[name] < lowest - 1e-6:
            lowest, best = errors[name], dict(shares)
    return {name: share / sum(best.values()) for name, share in best.items()}
