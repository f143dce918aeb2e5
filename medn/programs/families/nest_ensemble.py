"""Trees and an encoder over the same nests, weighed by what they say of validation programs."""

from __future__ import annotations

import numpy as np

from medn.core.metrics import relative_errors
from medn.programs.encodings import nest_rows
from medn.programs.family import Lesson, ProgramFamily, program_families
from medn.regressors.form import Form
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort

MEMBERS = {"xgboost_nests": 0.3, "nest_encoder": 0.7}
"""The families, and the share of the seconds that each gets."""
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the first family, those that are tried."""


@program_families.register
class NestEnsemble(ProgramFamily):
    name = "nest_ensemble"
    description = "a weighted mean of xgboost_nests and nest_encoder"
    encoding = "nests"
    packages = ("torch", "xgboost", "scipy")

    def fit(self, lesson: Lesson, effort: Effort) -> Form:
        """Settings are those of the members, by their names."""
        forms = [
            program_families[name].fit(
                Lesson(
                    lesson.train,
                    lesson.validation,
                    lesson.devices,
                    lesson.unlabelled,
                    lesson.settings.get(name, {}),
                ),
                effort.part(share * effort.seconds),
            )
            for name, share in MEMBERS.items()
        ]
        held = lesson.validation
        if not len(held):
            return WeightedSum(forms, [0.5, 0.5])
        rows = nest_rows(held.programs, lesson.devices)
        told = [form.run(rows) for form in forms]
        errors = [
            relative_errors(np.exp(weight * told[0] + (1 - weight) * told[1]), held.latency_s).mean()
            for weight in WEIGHTS
        ]
        best = WEIGHTS[int(np.argmin(errors))]
        return WeightedSum(forms, [best, 1 - best])
