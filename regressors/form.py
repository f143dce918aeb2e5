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

from medn.core.errors import UsageError, unknown
from medn.core.registry import import_modules
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
    """Something that predicts. One subclass per sort of computation, with `@register_form` above it."""

    form: ClassVar[str]

    @abstractmethod
    def log_value(self, inputs: Array) -> Array:
        """Logarithm of what was learned, one per row of inputs."""

    def one(self, row: Array) -> float:
        """The same of a single row of inputs, given as an array of one dimension."""
        return float(self.log_value(row[None])[0])

    def gradient(self, inputs: Array) -> Array:
        """How the logarithm changes with each input, in the shape of the inputs."""
        raise UsageError(f"a form of the sort {self.form!r} has no gradient; networks and rooflines have one")

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
    def from_parts(cls, parts: Parts) -> Form:
        """The form that `parts` describes."""

    def predict(self, inputs: Array) -> Array:
        """What was learned, in its unit."""
        return np.exp(self.log_value(inputs))


MOST_LEVELS = 8

_forms: dict[str, type[Form]] = {}


def register_form(form_class: type[Form]) -> type[Form]:
    _forms[form_class.form] = form_class
    return form_class


def restore(parts: Parts, width: int | None = None) -> Form:
    """Rebuild a form from its parts, and check that it takes so many inputs: a file may hold anything."""
    if parts.levels > MOST_LEVELS:
        raise ValueError(f"forms inside forms must be at most {MOST_LEVELS} levels deep")
    if parts.form not in _forms:
        import_modules("medn.regressors.forms")
    if parts.form not in _forms:
        raise UsageError(unknown("deployed form", parts.form, _forms))
    form = _forms[parts.form].from_parts(parts)
    if width is not None:
        form.check(width)
    return form
