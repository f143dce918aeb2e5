"""The deployed form of a regressor: plain arrays and a little JSON, evaluated without any training library.

A form predicts the logarithm of what was learned: seconds mostly, or bytes or joules. What a form is made of is all
there is to save: `parts` gives it, `restore` takes it back, and no code is read from a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.registry import Registry
from medn.core.table import Array
from medn.program.engines import NUMPY, Machine, engine, machine
from medn.program.symbols import NOT_TRACED, traced


@dataclass(frozen=True, eq=False)
class Parts:
    """Everything a form consists of: facts that JSON can hold, arrays by name, and forms inside the form."""

    form: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inner: tuple[Parts, ...] = ()

    @property
    def levels(self) -> int:
        """How deep forms stand inside forms."""
        return 1 + max((part.levels for part in self.inner), default=0)

    @property
    def size_bytes(self) -> int:
        own = sum(array.nbytes for array in self.arrays.values()) + len(repr(dict(self.facts)))
        return own + sum(part.size_bytes for part in self.inner)


class Form(ABC):
    """Something that predicts. One subclass in one file per sort of computation, with `@forms.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str] = ""

    @abstractmethod
    def log_value(self, inputs: Array) -> Array:
        """Logarithm of what was learned, one per row of inputs.

        A formula of NumPy: what traces it with symbols (medn.program.symbols) has a program for every engine. One that
        cannot be traced is run as it stands, which is slower.
        """

    def run(self, inputs: Array) -> Array:
        """The same by the engine that is there."""
        machine = self._machines(inputs.shape[1])
        return self.log_value(inputs) if machine is None else machine.run(inputs.T)[0]

    def one(self, row: Array) -> float:
        """The same of a single row of inputs, given as an array of one dimension."""
        return float(self.run(row[None])[0])

    @cached_property
    def _machines(self) -> Callable[[int], Machine | None]:
        """The program for rows of so many inputs, ready to be run; None where NumPy runs the formula itself."""

        @cache
        def made(width: int) -> Machine | None:
            if engine() == NUMPY:
                return None
            try:
                return machine(traced(width, lambda inputs: [self.log_value(inputs)]))  # type: ignore[arg-type]
            except NOT_TRACED:
                return None

        return made

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which makes programs of its own."""
        return {name: value for name, value in vars(self).items() if name != "_machines"}

    def gradient(self, inputs: Array) -> Array:
        """How the logarithm changes with each input, in the shape of the inputs."""
        raise UsageError(f"a form of the sort {self.name!r} has no gradient; networks and rooflines have one")

    def check(self, width: int) -> None:
        """That it can be evaluated for any row of so many inputs. Raises a ValueError that says why not.

        A form that holds arrays knows better than this what they must be like.
        """
        found = self.log_value(np.ones((1, width)))
        if found.shape != (1,) or not np.isfinite(found).all():
            raise ValueError("its form does not give one number for one layer")

    @abstractmethod
    def parts(self) -> Parts:
        """What this form is made of."""

    @classmethod
    @abstractmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Form:
        """The form that `parts` describes; `inner` are the forms inside it, restored and checked."""

    @classmethod
    def inner_widths(cls, parts: Parts, width: int) -> Sequence[int]:
        """How many inputs each form inside takes, where the form itself takes so many."""
        return (width,) * len(parts.inner)

    def predict(self, inputs: Array) -> Array:
        """What was learned, in its unit."""
        return np.exp(self.run(inputs))


MOST_LEVELS = 8

forms: Registry[type[Form]] = Registry("deployed form", package="medn.regressors.forms", make=lambda form: form)


def restore(parts: Parts, width: int) -> Form:
    """The form that parts describe, checked to take so many inputs: a file may hold anything.

    A file only names a form, and brings arrays and facts for it: all code is that of registered forms.
    """
    if parts.levels > MOST_LEVELS:
        raise ValueError(f"forms inside forms must be at most {MOST_LEVELS} levels deep")
    if parts.form not in forms:
        raise UsageError(forms.absence(parts.form))
    widths = forms[parts.form].inner_widths(parts, width)
    inner = tuple(restore(each, own) for each, own in zip(parts.inner, widths, strict=True))
    form = forms[parts.form].from_parts(parts, inner)
    form.check(width)
    return form
