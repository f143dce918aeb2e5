"""Intervals of layers under conditions that never varied while layers were measured.

A layer that was measured with one batch size only says little about another. On a device that was always idle, whatever
others hold of it may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.estimator import Rows

BATCH_FACTOR = 1.25
"""How much longer or shorter a layer may take for each doubling of a batch size that was never changed. Learned from
batches of one and asked for at 16, nine of ten layers (median of 17 kinds) were off by that much more than at one."""


def batch_factors(rows: Rows, constants: Mapping[str, Scalar]) -> Array:
    """What the bounds of each row's interval are divided and multiplied by."""
    if "batch_size" not in constants:
        return np.ones(len(rows.inputs))
    times = np.asarray(rows.columns["batch_size"], dtype=np.float64) / float(constants["batch_size"])
    return np.broadcast_to(BATCH_FACTOR ** np.abs(np.log2(times)), len(rows.inputs))


def only_shares(rows: Rows, constants: Mapping[str, Scalar]) -> Array:
    """The share of the device that every layer was measured with, where it never varied; NaN where it did."""
    share = 1 - float(constants["utilization"]) if "utilization" in constants else np.nan
    return np.full(len(rows.inputs), share)
