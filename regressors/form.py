"""The deployed form of a regressor: plain arrays and a little JSON, evaluated without any training library.

A form predicts the logarithm of what was learned: seconds mostly, or bytes or joules. What a form is made of is all
there is to save: `parts` gives it, `restore` takes it back, and no code is read from a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.registry import Registry
from medn.core.table import Array


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
        """Logarithm of what was learned, one per row of inputs."""

    def one(self, row: Array) -> float:
        """The same of a single row of inputs, given as an array of one dimension."""
        return float(self.log_value(row[None])[0])

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

    def predict(self, inputs: Array) -> Array:
        """What was learned, in its unit."""
        return np.exp(self.log_value(inputs))


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
    form = forms[parts.form].from_parts(parts, tuple(restore(each, width) for each in parts.inner))
    form.check(width)
    return form
