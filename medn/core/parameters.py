"""How one typed value is declared: a parameter of a layer kind, or a condition that layers are measured under."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from medn.core.errors import did_you_mean
from medn.core.text import shown

if TYPE_CHECKING:
    from medn.core.values import Scalar

LARGEST = 1e38
"""What a number without limits of its own may be at most: inputs are rounded to float32, which ends a little above."""


@dataclass(frozen=True)
class Parameter:
    """One typed value: what it says, its limits, and the default where it may be left out."""

    name: str
    about: str
    type: type
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    """The strings that are allowed; any where there are none."""
    default: Scalar | None = None
    late: bool = False
    """Added when layers of the kind had been measured already. Its default means what the kind meant before, and is
    left unsaid in a layer, so that the layers of before are the same ones."""
    unit: str = ""
    further: str = ""
    """How strings beside the choices come to be allowed, in a sentence; empty where none ever are."""
    spellings: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Other strings that mean one of the choices."""

    def mistake(self, value: Any) -> str | None:
        """What is wrong with a value, without the parameter's name; None if nothing is."""
        if self.type is bool:
            return None if isinstance(value, bool) else f"must be true or false (got {shown(value)})"
        if self.type is str:
            return self._wrong_text(value)
        if isinstance(value, bool) or not isinstance(value, (int, float) if self.type is float else int):
            return f"must be a {'whole ' if self.type is int else ''}number (got {shown(value)})"
        if isinstance(value, float) and not math.isfinite(value):
            return f"must be a finite number (got {value})"
        low = -LARGEST if self.low is None else self.low
        high = LARGEST if self.high is None else self.high
        if value < low:
            return f"must be at least {low:.10g} (got {shown(value)})"
        if value > high:
            return f"must be at most {high:.10g} (got {shown(value)})"
        return None

    def _wrong_text(self, value: Any) -> str | None:
        if isinstance(value, str) and (not self.choices or value in self.choices or value in self.spellings):
            return None
        if not self.choices:
            return f"must be a string (got {shown(value)})"
        allowed = f"must be one of {', '.join(self.choices)} (got {shown(value)})."
        if self.further:  # what is near may be another thing altogether
            return f"{allowed} {self.further}"
        return allowed + (did_you_mean(value, self.choices) if isinstance(value, str) else "")

    def fitted(self, value: Any) -> Any:
        """The same value as the parameter wants it: tables hold whole numbers as 3.0 and flags as 0 and 1."""
        if self.type is str:
            if not self.choices and isinstance(value, (bool, int, float)):
                return str(value)
            return self.spellings.get(value, value) if isinstance(value, str) else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        if self.type is int and isinstance(value, float) and value.is_integer():
            return int(value)
        return bool(value) if self.type is bool and value in (0, 1) else value

    def with_choices(self, more: Iterable[str]) -> Parameter:
        """The same, with further choices."""
        return replace(self, choices=tuple(dict.fromkeys((*self.choices, *more))))


def integer(
    name: str, about: str, low: int, high: int, default: int | None = None, late: bool = False, unit: str = ""
) -> Parameter:
    return Parameter(name, about, int, low=low, high=high, default=default, late=late, unit=unit)


def number(
    name: str, about: str, low: float, high: float, default: float | None = None, late: bool = False, unit: str = ""
) -> Parameter:
    return Parameter(name, about, float, low=low, high=high, default=default, late=late, unit=unit)


def flag(name: str, about: str, default: bool = False) -> Parameter:
    return Parameter(name, about, bool, default=default)


def choice(name: str, about: str, choices: tuple[str, ...], default: str | None = None) -> Parameter:
    return Parameter(name, about, str, choices=choices, default=default)


def by_name(*parameters: Parameter) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}
