"""Small weighted ensembles: means on the logarithmic scale, their weights chosen on validation rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array
from medn.selection.option import believed_error

STEPS = 20
SIZES = (2, 3, 4)
"""The most members of an ensemble; each size is offered, as a larger one costs more."""

HOPELESS = 2.0
"""How many times the lowest error of those as cheap a member may have: on few layers a share would be spread to it,
though it has nothing to say."""

FEW_LAYERS = 20
"""With fewer, that is: a single candidate counts as worse by two fifths and more there."""

Weights = Mapping[str, float]


Errors = dict[tuple[frozenset[tuple[str, int]], str], float]
"""By the shares that members have, and the one that gets another."""


def choose_weights(
    log_predictions: Mapping[str, Array],
    measured_s: Array,
    *,
    layers: int,
    most: int | None = None,
    known: Errors | None = None,
) -> Weights:
    """Greedy with replacement: whichever member lowers the error most gets one more share, up to `STEPS` of them.

    The error is what is believed of it on so many layers: on few of them, shares are spread over what is nearly as
    good. `most` is how many different members there may be. What is `known` need not be worked out again and is added
    to.

    >>> members = {"low": np.log([0.5, 1.0]), "high": np.log([2.0, 4.0]), "far": np.log([9.0, 9.0])}
    >>> choose_weights(members, np.array([1.0, 2.0]), layers=2)
    {'low': 0.5, 'high': 0.5}
    """
    total, lowest = np.zeros(len(measured_s)), np.inf
    shares: dict[str, int] = {}
    best = dict(shares)
    known = {} if known is None else known
    for _ in range(STEPS):
        is_full = most is not None and len(shares) >= most
        so_far = frozenset(shares.items())
        errors = {}
        for name in (name for name in log_predictions if name in shares or not is_full):
            if (so_far, name) not in known:
                more = {**shares, name: shares.get(name, 0) + 1}
                known[so_far, name] = _believed(total + log_predictions[name], measured_s, more, layers)
            errors[name] = known[so_far, name]
        name = min(errors, key=errors.__getitem__)
        total = total + log_predictions[name]
        shares[name] = shares.get(name, 0) + 1
        if errors[name] < lowest - 1e-6:
            lowest, best = errors[name], dict(shares)
    return {name: share / sum(best.values()) for name, share in best.items()}


def _believed(total: Array, measured_s: Array, shares: Mapping[str, float], layers: int) -> float:
    """Of the mean of logarithms that add up to this, each as often as it has shares."""
    whole = sum(shares.values())
    error = float(relative_errors(np.exp(total / whole), measured_s).mean())
    return believed_error(error, (share / whole for share in shares.values()), layers)


def mixed(log_predictions: Mapping[str, Array], weights: Weights) -> Array:
    """The logarithm of what an ensemble predicts."""
    return np.asarray(sum(weight * log_predictions[name] for name, weight in weights.items()))


def offered(
    log_predictions: Mapping[str, Array], measured_s: Array, costs: Mapping[str, float], layers: int
) -> list[Weights]:
    """Ensembles worth measuring, from the cheapest few candidates to all of them, of every size.

    `costs` orders the candidates; an ensemble that a cheaper option, single or not, equals in error is left out. The
    rows are of so many layers.
    """
    by_cost = sorted(log_predictions, key=costs.__getitem__)
    alone = {name: float(relative_errors(np.exp(own), measured_s).mean()) for name, own in log_predictions.items()}
    found: dict[frozenset[str], Weights] = {frozenset([name]): {name: 1.0} for name in by_cost}
    known: Errors = {}
    for count in range(2, len(by_cost) + 1):
        most_error = HOPELESS * min(alone[name] for name in by_cost[:count]) if layers < FEW_LAYERS else np.inf
        pool = {name: log_predictions[name] for name in by_cost[:count] if alone[name] <= most_error}
        for size in SIZES:
            weights = choose_weights(pool, measured_s, layers=layers, most=size, known=known)
            found.setdefault(frozenset(weights), weights)
    errors = {
        members: _believed(mixed(log_predictions, weights), measured_s, weights, layers)
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
