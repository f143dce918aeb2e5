"""Small weighted ensembles: means on the logarithmic scale, their weights chosen on validation rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array

STEPS = 20
SIZES = (2, 3, 4)
"""The most members of an ensemble; each size is offered, as a larger one costs more."""

Weights = Mapping[str, float]


def choose_weights(log_predictions: Mapping[str, Array], measured_s: Array, most: int | None = None) -> Weights:
    """Greedy with replacement: whichever member lowers the error most gets one more share, up to `STEPS` of them.

    `most` is how many different members there may be.

    >>> members = {"low": np.log([0.5, 1.0]), "high": np.log([2.0, 4.0]), "far": np.log([9.0, 9.0])}
    >>> choose_weights(members, np.array([1.0, 2.0]))
    {'low': 0.5, 'high': 0.5}
    """
    total, lowest = np.zeros(len(measured_s)), np.inf
    shares: dict[str, int] = {}
    best = dict(shares)
    for step in range(1, STEPS + 1):
        is_full = most is not None and len(shares) >= most
        errors = {
            name: float(relative_errors(np.exp((total + logs) / step), measured_s).mean())
            for name, logs in log_predictions.items()
            if name in shares or not is_full
        }
        name = min(errors, key=errors.__getitem__)
        total = total + log_predictions[name]
        shares[name] = shares.get(name, 0) + 1
        if errors[name] < lowest - 1e-6:
            lowest, best = errors[name], dict(shares)
    return {name: share / sum(best.values()) for name, share in best.items()}


def mixed(log_predictions: Mapping[str, Array], weights: Weights) -> Array:
    """The logarithm of what an ensemble predicts."""
    return np.asarray(sum(weight * log_predictions[name] for name, weight in weights.items()))


def offered(log_predictions: Mapping[str, Array], measured_s: Array, costs: Mapping[str, float]) -> list[Weights]:
    """Ensembles worth measuring, from the cheapest few candidates to all of them, of every size.

    `costs` orders the candidates; an ensemble that a cheaper option, single or not, equals in error is left out.
    """
    by_cost = sorted(log_predictions, key=costs.__getitem__)
    found: dict[frozenset[str], Weights] = {frozenset([name]): {name: 1.0} for name in by_cost}
    for count in range(2, len(by_cost) + 1):
        pool = {name: log_predictions[name] for name in by_cost[:count]}
        for size in SIZES:
            weights = choose_weights(pool, measured_s, size)
            found.setdefault(frozenset(weights), weights)
    errors = {
        members: float(relative_errors(np.exp(mixed(log_predictions, weights)), measured_s).mean())
        for members, weights in found.items()
    }
    worth: list[Weights] = []
    lowest = np.inf
    for members in sorted(found, key=lambda each: sum(costs[name] for name in each)):
        if errors[members] < lowest:
            lowest = errors[members]
            worth.append(found[members])
    return [weights for weights in worth if len(weights) > 1]


def ensemble_name(weights: Weights) -> str:
    """The members by falling weight.

    >>> ensemble_name({"a": 0.4, "b": 0.6})
    'b+a'
    """
    return "+".join(sorted(weights, key=lambda name: -weights[name]))
