"""Seconds as a sum of costs: per byte read, per byte written, per FLOP, and once per call."""

from __future__ import annotations

import numpy as np

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.roofline import Columns
from medn.regressors.regressor import Effort, Regressor, Settings, regressors


@regressors.register
class Linear(Regressor):
    name = "linear"
    description = "a cost per byte read, per byte written and per FLOP, plus a constant; none of them negative"
    extrapolates = True
    share = 0.1
    learns_further = True
    packages = ("scipy",)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from scipy.optimize import nnls

        found = Columns.find(train.schema)
        apart = [train.schema.index(name) for name in ("bytes_read", "bytes_written") if name in train.schema.names]
        columns = np.array([found.flops, *(apart if len(apart) == 2 else found.traffic)], dtype=np.int32)
        scale = np.maximum(train.inputs[:, columns].max(axis=0), 1.0)
        causes = np.column_stack([train.inputs[:, columns] / scale, np.ones(len(train))])
        # Divided by the target, the squared distance to one is the squared relative error.
        weights, _ = nnls(causes / train.target[:, None], np.ones(len(train)))
        floor = float(train.target.min()) / 10
        return Learned.from_form(Affine(columns, weights[:-1] / scale, float(weights[-1]), floor))
