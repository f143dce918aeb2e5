"""What other devices take, weighted, with what a correction adds: how a new device leans on known ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from medn.core.checking import LARGEST_LOG, check_name, check_numbers, check_whole
from medn.core.table import MOST_INPUTS, Array
from medn.regressors.form import Form, Parts, forms
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.sources import Sources, beside
from medn.regressors.views import View

MOST_SOURCES = 1_024


@forms.register
class Stack(Form):
    """A weighted sum of the logarithms of other devices' seconds, a constant, and a form that sees both the inputs and
    these logarithms."""

    name = "stack"
    description = "what other devices take, weighted and corrected"

    def __init__(
        self, sources: Sources, weights: Sequence[float], constant: float, correction: Form | None = None
    ) -> None:
        self.sources = sources
        self.weights = tuple(weights)
        self.constant = constant
        self.correction = correction

    def log_value(self, inputs: Array) -> Array:
        return self.from_logs(inputs, self.sources.logs(inputs))

    def from_logs(self, inputs: Array, logs: Array) -> Array:
        """The same where it is known what other devices take."""
        found: Array = logs @ np.array(self.weights) + self.constant
        if self.correction is not None:
            found = found + self.correction.log_value(beside(inputs, logs))
        return found

    def check(self, width: int) -> None:
        # The forms inside were checked when they were restored.
        count = len(self.sources.views)
        check_numbers("the weights of devices", self.weights)
        check_numbers("the constant of a stack", [self.constant], -LARGEST_LOG, LARGEST_LOG)
        if not len(self.weights) == len(self.sources.names) == len(self.sources.form_of) == count > 0:
            raise ValueError("the weights of devices are not as many as the devices")
        for name, view in zip(self.sources.names, self.sources.views, strict=True):
            check_name("a device that others are predicted by", name)
            view.check(width)

    def parts(self) -> Parts:
        own = self.sources
        facts: dict[str, Any] = {"weights": list(self.weights), "constant": self.constant}
        facts |= {"names": list(own.names), "form_of": list(own.form_of), "is_corrected": self.correction is not None}
        arrays = {
            f"{place}.{name}": array for place, view in enumerate(own.views) for name, array in view.arrays.items()
        }
        inner = own.forms if self.correction is None else (*own.forms, self.correction)
        return Parts(self.name, facts, arrays, tuple(form.parts() for form in inner))

    @classmethod
    def inner_widths(cls, parts: Parts, width: int) -> Sequence[int]:
        """A source takes the inputs that its views make, a correction the inputs and what all sources say."""
        form_of, is_corrected = parts.facts["form_of"], parts.facts["is_corrected"]
        check_whole("the number of devices", len(form_of), 1, MOST_SOURCES)
        check_whole("the inputs of a stack", width, 1, MOST_INPUTS)
        count = len(parts.inner) - (1 if is_corrected else 0)
        widths = [0] * count
        for place, form in enumerate(form_of):
            check_whole("the form of a device", form, 0, count - 1)
            own = len(parts.arrays[f"{place}.operation"])
            if widths[form] not in (0, own):
                raise ValueError("the views of one form must have as many inputs")
            widths[form] = own
        if 0 in widths:
            raise ValueError("a form inside a stack is that of no device")
        return [*widths, width + len(form_of)] if is_corrected else widths

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Stack:
        facts = parts.facts
        correction = inner[-1] if facts["is_corrected"] else None
        views = tuple(
            View.restore({name.partition(".")[2]: array for name, array in parts.arrays.items() if _is_of(name, place)})
            for place in range(len(facts["form_of"]))
        )
        own = inner[:-1] if facts["is_corrected"] else inner
        sources = Sources(tuple(facts["names"]), own, views, tuple(facts["form_of"]))
        return cls(sources, facts["weights"], facts["constant"], correction)


def _is_of(name: str, place: int) -> bool:
    return name.startswith(f"{place}.")


def alike(stacks: Sequence[tuple[Stack, float]]) -> list[tuple[Stack, float]]:
    """Those that lean on nothing but what the one that leans on most leans on."""
    most = max((stack for stack, _ in stacks), key=lambda stack: len(stack.weights), default=None)
    known = set(most.sources.keys) if most else set()
    return [each for each in stacks if set(each[0].sources.keys) <= known]


def merged(stacks: Sequence[tuple[Stack, float]]) -> Stack | None:
    """One stack that says what these say by their weights, so that no source is kept or asked twice; None where they
    lean on different ones."""
    first, *_ = sorted((stack for stack, _ in stacks), key=lambda stack: -len(stack.weights))
    places = {key: place for place, key in enumerate(first.sources.keys)}
    weights, constant = np.zeros(len(first.weights)), 0.0
    corrections: list[tuple[Form, float]] = []
    for stack, share in stacks:
        keys = stack.sources.keys
        if not places.keys() >= set(keys) or (stack.correction and keys != first.sources.keys):
            return None
        np.add.at(weights, [places[key] for key in keys], share * np.array(stack.weights))
        constant += share * stack.constant
        corrections += [(stack.correction, share)] if stack.correction else []
    correction = WeightedSum(*zip(*corrections, strict=True)) if corrections else None
    return Stack(first.sources, weights.tolist(), constant, correction)
