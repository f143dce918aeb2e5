"""Gradient boosting on pooled features: what compilers search by."""

from __future__ import annotations

import numpy as np

from medn.core.table import Schema, Table
from medn.programs.encodings import pooled_rows
from medn.programs.family import Lesson, ProgramFamily, program_families
from medn.programs.programs import MeasuredPrograms
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, regressors

SHORTEST_S = 1e-12


@program_families.register
class XgboostPooled(ProgramFamily):
    name = "xgboost_pooled"
    description = "gradient boosting by XGBoost on pooled features"
    encoding = "pooled"
    packages = ("xgboost",)

    def fit(self, lesson: Lesson, effort: Effort) -> Form:
        """Trees for the multiple of the work, which is the first of the inputs."""
        family = regressors["xgboost"]
        settings = {**family.defaults, "most_trees": 1000, "colsample_bynode": 0.3, **lesson.settings}
        train, validation = (_table(part, lesson.devices) for part in (lesson.train, lesson.validation))
        trees = family.fit(train, validation, settings, effort).export()
        work = Affine(np.zeros(1, dtype=np.int32), np.ones(1), 0.0, SHORTEST_S)
        return WeightedSum([trees, work], [1.0, 1.0])


def _table(programs: MeasuredPrograms, devices: tuple[str, ...]) -> Table:
    rows = pooled_rows(programs.programs, devices).astype(np.float32).astype(np.float64)
    multiple = programs.latency_s / rows[:, 0]
    return Table(Schema(tuple(f"input_{at}" for at in range(rows.shape[1]))), rows, multiple, programs.tasks)
