"""What a data sheet says of a new device, taken apart into the known devices that it is put together from.

It is a weighted sum of what known devices take, which are sources themselves, and of times at the peaks. Only these are
a source more: so no device is kept or asked twice, and what the sheet says is one law among others for the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from medn.core.checking import LARGEST
from medn.regressors.form import Form
from medn.regressors.forms.stack import Stack
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.views import View


@dataclass(frozen=True, eq=False)
class SheetLaw:
    """What is said by a data sheet."""

    weights: Mapping[str, float]
    """Of the known devices."""
    rest: Form
    """What is added to them."""

    @classmethod
    def of(cls, form: Form) -> SheetLaw | None:
        """None where a form is no such sum."""
        if not isinstance(form, WeightedSum) or len(form.forms) < 2 or set(form.weights) != {1.0}:
            return None
        first, *others = form.forms
        if not isinstance(first, Stack) or first.correction is not None or first.constant:
            return None
        weights = dict(zip(first.sources.names, first.weights, strict=True))
        return cls(weights, others[0] if len(others) == 1 else WeightedSum(others))


def endless(view: View) -> View:
    """The same view without ends: what is added to others must not grow with the work once more."""
    ends = np.full(view.width, LARGEST)
    return replace(view, low=-ends, high=ends, work=np.zeros(0, np.int32))


def laws(names: tuple[str, ...], foreseen: Mapping[str, SheetLaw]) -> tuple[tuple[float, ...], ...]:
    """The plain mean of the devices among the sources, and what every data sheet says of their weights.

    >>> sheet = SheetLaw({"old": 0.2, "older": 0.8}, Stack.__new__(Stack))
    >>> laws(("older", "old", "new from its sheet"), {"new from its sheet": sheet})
    ((0.5, 0.5, 0.0), (0.8, 0.2, 1.0))
    """
    if not foreseen:
        return ()
    devices = [name not in foreseen for name in names]
    mean = tuple(is_device / sum(devices) for is_device in devices)
    return mean, *(
        tuple(1.0 if name == own else each.weights.get(name, 0.0) for name in names) for own, each in foreseen.items()
    )
