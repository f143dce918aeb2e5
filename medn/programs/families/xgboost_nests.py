"""Gradient boosting on what every store runs in, as a multiple of the time that the device's rates make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array, Schema, Table
from medn.programs.encodings import nest_rows
from medn.programs.family import Lesson, ProgramFamily, program_families
from medn.programs.forms.nest_pool import NestPool
from medn.programs.pooled_nests import pooled_nests, program_rates
from medn.programs.programs import MeasuredPrograms
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, regressors

SETTINGS = {
    **{"most_trees": 500, "max_leaves": 31, "min_child_weight": 5.0, "colsample_bynode": 0.2, "subsample": 0.8},
    "members": 3,
}
FACTORS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""That are tried on validation programs."""


@program_families.register
class XgboostNests(ProgramFamily):
    name = "xgboost_nests"
    description = "gradient boosting by XGBoost on the loops of stores, over a sum of rates"
    encoding = "nests"
    packages = ("xgboost", "scipy")

    def fit(self, lesson: Lesson, effort: Effort) -> Form:
        """The mean of boosters that draw different rows and columns."""
        family = regressors["xgboost"]
        settings = {**family.defaults, **SETTINGS, **lesson.settings}
        members = int(settings.pop("members"))
        rows = nest_rows(lesson.train.programs, lesson.devices)
        rates = program_rates(rows, lesson.train.latency_s, len(lesson.devices))
        train = _table(rows, rates, lesson.train)
        validation = _table(nest_rows(lesson.validation.programs, lesson.devices), rates, lesson.validation)
        forms = []
        for member in range(members):
            own = replace(effort.part(effort.seconds_left / (members - member)), seed=effort.seed + member)
            forms.append(family.fit(train, validation, settings, own).export())
        mean = WeightedSum(forms, [1 / members] * members)
        factor = _least_error_factor(mean.run(validation.inputs), validation.target) if len(validation) else 1.0
        nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        return NestPool(WeightedSum([mean, Affine(*nothing, factor, factor)], [1.0, 1.0]), rates)


def _least_error_factor(log_multiple: Array, multiple: Array) -> float:
    """What programs that are told unsurely are best multiplied by: too high by much errs by more than too low."""
    errors = [relative_errors(np.exp(log_multiple) * factor, multiple).mean() for factor in FACTORS]
    return FACTORS[int(np.argmin(errors))]


def _table(rows: Array, rates: Array, programs: MeasuredPrograms) -> Table:
    inputs = pooled_nests(rows, rates)
    columns = Schema(tuple(f"input_{at}" for at in range(inputs.shape[1])))
    return Table(columns, inputs, programs.latency_s / inputs[:, 0], programs.tasks)
