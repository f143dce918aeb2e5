"""Intervals of layers under conditions that never varied while layers were measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medn.core.values import Scalar
from medn.estimator.columns import Column
from medn.estimator.estimator import Estimates

BATCH_FACTOR = 1.25
"""How much longer or shorter a layer may take for each doubling of a batch size that was never changed. Learned from
batches of one and asked for at 16, nine of ten layers (median of 17 kinds) were off by that much more than at one."""


def widened(estimates: Estimates, conditions: Mapping[str, Column], constants: Mapping[str, Scalar]) -> Estimates:
    """The same predictions, with intervals for conditions that no measurement can tell the effect of.

    A layer that was measured with one batch size only says little about another. On a device that was always idle,
    whatever others hold of it may be missing.
    """
    low_s, high_s = estimates.low_s, estimates.high_s
    if "batch_size" in constants:
        times = np.asarray(conditions["batch_size"], dtype=np.float64) / float(constants["batch_size"])
        factor = BATCH_FACTOR ** np.abs(np.log2(times))
        low_s, high_s = low_s / factor, high_s * factor
    if "utilization" in constants:
        left, usual = 1 - float(conditions["utilization"]), 1 - float(constants["utilization"])
        low_s, high_s = low_s * min(usual / left, 1.0), high_s * max(usual / left, 1.0)
    return estimates._replace(low_s=low_s, high_s=high_s)
