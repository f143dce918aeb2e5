"""Several forms added up on the logarithmic scale: a correction on top of a base, or an ensemble."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medn.core.checking import check_numbers
from medn.core.table import Array
from medn.program.formulas import rows_of
from medn.regressors.form import Form, Parts, forms


@forms.register
class WeightedSum(Form):
    """With weights of one, each form corrects those before it by a factor; with weights that add up to one, a mean."""

    name = "weighted_sum"
    description = "a weighted sum of other forms"

    def __init__(self, forms: Sequence[Form], weights: Sequence[float] | None = None) -> None:
        self.forms = tuple(forms)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.forms)

    def log_value(self, inputs: Array) -> Array:
        total: Array = rows_of(inputs, 0.0)
        for form, weight in zip(self.forms, self.weights, strict=True):
            total = total + weight * form.log_value(inputs)
        return total

    def gradient(self, inputs: Array) -> Array:
        total = np.zeros(inputs.shape)
        for form, weight in zip(self.forms, self.weights, strict=True):
            total += weight * form.gradient(inputs)
        return total

    def check(self, width: int) -> None:
        # The forms inside were checked when they were restored.
        check_numbers("the weights of forms", self.weights)
        if not len(self.weights) == len(self.forms) > 0:
            raise ValueError("the weights of forms are not as many as the forms")

    def parts(self) -> Parts:
        return Parts(self.name, {"weights": list(self.weights)}, inner=tuple(form.parts() for form in self.forms))

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> WeightedSum:
        return cls(inner, parts.facts["weights"])
