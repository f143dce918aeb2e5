"""The time of a program as a sum: every component of its nests at a rate of its own, one set of rates for a device."""

from __future__ import annotations

import numpy as np

from medn.core.table import Array

SOFT = 0.2
"""Errors of the logarithm below this count as squares."""
RIDGE = 2e-4
USUAL = -3.0
"""The logarithm of a rate that nothing is known of, over the one at which its component alone would be the time."""
LEAST, MOST = -14.0, 4.0
STEPS = 300


def fitted_rates(amounts: Array, latency_s: Array) -> Array:
    """Seconds for one of each component, none below zero, so that the logarithm of their sum errs least."""
    from scipy.optimize import minimize

    alone = np.array([_alone(column, latency_s) for column in amounts.T])
    scaled = amounts * alone

    def loss(logs: Array) -> tuple[float, Array]:
        rates = np.exp(logs)
        total = scaled @ rates
        error = np.log(total) - np.log(latency_s)
        bent = np.sqrt(error**2 + SOFT**2)
        slope = (error / bent / total) @ scaled * rates / len(total)
        return float(bent.mean() + RIDGE * ((logs - USUAL) ** 2).sum()), slope + 2 * RIDGE * (logs - USUAL)

    start = np.full(amounts.shape[1], USUAL)
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(LEAST, MOST)] * len(start), options={"maxiter": STEPS}
    )
    return np.asarray(np.exp(found.x) * alone, dtype=np.float64)


def _alone(column: Array, latency_s: Array) -> float:
    some = column > 0
    return float(np.median(latency_s[some]) / np.median(column[some])) if some.any() else 0.0


def device_rates(amounts: Array, latency_s: Array, device: Array, devices: int) -> Array:
    """A row for each device, and a last one of all, for devices that nobody has seen or that have no rows."""
    shared = fitted_rates(amounts, latency_s)
    rows = [device == number for number in range(devices)]
    own = [fitted_rates(amounts[of], latency_s[of]) if of.sum() > amounts.shape[1] else shared for of in rows]
    return np.array([*own, shared])
