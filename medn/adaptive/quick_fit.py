"""A fit that takes a moment, for questions between measurements: a Gaussian process on the plain roofline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.families.roofline import plain_roofline
from medn.regressors.fitted import limited_threads, thinned
from medn.regressors.form import Form
from medn.regressors.regressor import Effort
from medn.regressors.residual_process import ResidualProcess

MOST_ROWS = 1000
LIKELIHOOD_ROWS = 150
"""Fewer rows than what ships is fitted with: a fraction of the time, and about the same error."""

FIT_S = 5.0
"""What one fit may take on a machine that does other things."""


@dataclass(frozen=True, eq=False)
class QuickFit:
    """What was learned of some rows of a kind."""

    base: Form | None
    """The roofline; None where the inputs do not tell the work."""
    process: ResidualProcess
    kernel: Form

    @classmethod
    def of(cls, rows: Table, seed: int) -> QuickFit:
        effort = Effort(FIT_S, seed)
        table = thinned(rows, MOST_ROWS, seed)
        with limited_threads(effort):
            base = plain_roofline(table, effort)
            logs = np.log(table.target) - (base.log_value(table.inputs) if base else 0.0)
            process = ResidualProcess.fit(table, logs, 1.0, effort, LIKELIHOOD_ROWS)
            return cls(base, process, process.kernel())

    def predict(self, inputs: Array) -> Array:
        logs = self.kernel.log_value(inputs) + (self.base.log_value(inputs) if self.base else 0.0)
        return np.asarray(np.exp(logs))
