"""Domains: the values a parameter may take in a sweep, in the forms a config writes them.

A domain answers four questions: which value stands at the fraction u of it (for random and quasi-random samplers),
which values make up its grid, which of its values is nearest to a given one, and which values its writer wrote where
(so that a mistake can be pointed at). The field names are the config's own keywords:

    kernel_size: 3                                fixed
    kernel_size: [1, 3, 5]                        one of these, equally often
    in_h: {range: [7, 56], step: 7}               evenly spaced
    in_channels: {log_range: [8, 512], multiple_of: 8}
    batch_size: {powers_of_two: [1, 64]}
    groups: {choices: {1: 0.8, 2: 0.2}}           with weights
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from medn.core.errors import did_you_mean
from medn.core.values import Scalar

GRID_STEPS = 8
"""How many values a grid takes from a domain that has no natural steps."""

Path = tuple[str | int, ...]
Part = tuple[Path, Scalar]
"""A value as it was written, and where inside the domain it stands."""


def _check_scalar(value: object) -> None:
    if not isinstance(value, (bool, int, float, str)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"must be a number, a string, or true or false (got {value!r})")


def _check_number(keyword: str, value: object, whole: bool) -> None:
    right = isinstance(value, int) if whole else isinstance(value, (int, float)) and math.isfinite(value)
    if isinstance(value, bool) or not right:
        raise ValueError(f"{keyword} needs {'whole numbers' if whole else 'numbers'} (got {value!r})")


def _check_ends(keyword: str, ends: object, least: float = -math.inf, whole: bool = False) -> None:
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise ValueError(f"{keyword} needs its two ends, as in [1, 64] (got {ends!r})")
    for end in ends:
        _check_number(keyword, end, whole)
    low, high = ends
    if low < least:
        raise ValueError(f"{keyword} must start at {least:g} or more (got {low:g})")
    if high < low:
        raise ValueError(f"{keyword} must end at or above its start (got {low:g} to {high:g})")


def _nearest(values: Sequence[Scalar], wanted: Scalar) -> Scalar | None:
    """The value closest in number, or the same text or flag; None where there is none."""
    if wanted in values:
        return wanted
    if isinstance(wanted, (bool, str)):
        return None
    numbers = [value for value in values if not isinstance(value, (bool, str))]
    return min(numbers, key=lambda value: abs(value - wanted), default=None)


@dataclass(frozen=True)
class Fixed:
    value: Scalar

    def __post_init__(self) -> None:
        _check_scalar(self.value)

    def at(self, fraction: float) -> Scalar:
        return self.value

    def grid(self) -> list[Scalar]:
        return [self.value]

    def nearest(self, wanted: Scalar) -> Scalar | None:
        return self.value

    def parts(self) -> Iterator[Part]:
        yield (), self.value


@dataclass(frozen=True)
class OneOf:
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a list of values must not be empty")
        for value in self.values:
            _check_scalar(value)

    def at(self, fraction: float) -> Scalar:
        return self.values[min(int(fraction * len(self.values)), len(self.values) - 1)]

    def grid(self) -> list[Scalar]:
        return list(dict.fromkeys(self.values))

    def nearest(self, wanted: Scalar) -> Scalar | None:
        return _nearest(self.values, wanted)

    def parts(self) -> Iterator[Part]:
        for index, value in enumerate(self.values):
            yield (index,), value


@dataclass(frozen=True)
class Range:
    """Evenly spaced numbers; without a step, whole numbers between whole ends and a few values between others."""

    keyword: ClassVar[str] = "range"
    range: tuple[float, float]
    step: float | None = None

    def __post_init__(self) -> None:
        _check_ends("range", self.range)
        if self.step is not None:
            _check_number("step", self.step, whole=False)
            if not self.step > 0:
                raise ValueError(f"step must be above 0 (got {self.step:g})")

    @property
    def _stride(self) -> float:
        low, high = self.range
        if self.step is not None:
            return self.step
        whole = float(low).is_integer() and float(high).is_integer()
        return 1 if whole or low == high else (high - low) / (GRID_STEPS - 1)

    def _count(self) -> int:
        low, high = self.range
        return int((high - low) / self._stride + 1e-9) + 1

    def _value(self, index: int) -> Scalar:
        value = self.range[0] + index * self._stride
        whole = all(float(part).is_integer() for part in (self.range[0], self._stride))
        return int(value) if whole else round(value, 9)

    def at(self, fraction: float) -> Scalar:
        count = self._count()
        return self._value(min(int(fraction * count), count - 1))

    def grid(self) -> list[Scalar]:
        return [self._value(index) for index in range(self._count())]

    def nearest(self, wanted: Scalar) -> Scalar | None:
        if isinstance(wanted, (bool, str)):
            return None
        index = round((wanted - self.range[0]) / self._stride)
        return self._value(max(0, min(index, self._count() - 1)))

    def parts(self) -> Iterator[Part]:
        for index, end in enumerate(self.range):
            yield ("range", index), int(end) if float(end).is_integer() else end
        if self.step is not None and not float(self.step).is_integer():
            yield ("step",), self._value(1)


@dataclass(frozen=True)
class LogRange:
    """Whole numbers, as many between 8 and 16 as between 256 and 512."""

    keyword: ClassVar[str] = "log_range"
    log_range: tuple[int, int]
    multiple_of: int = 1

    def __post_init__(self) -> None:
        _check_ends("log_range", self.log_range, least=1, whole=True)
        _check_number("multiple_of", self.multiple_of, whole=True)
        if self.multiple_of < 1:
            raise ValueError(f"multiple_of must be at least 1 (got {self.multiple_of})")
        low, high = self.log_range
        if high // self.multiple_of * self.multiple_of < low:
            raise ValueError(f"log_range {low} to {high} holds no multiple of {self.multiple_of}")

    def _round(self, value: float) -> int:
        low, high = self.log_range
        nearest = round(value / self.multiple_of) * self.multiple_of
        first = math.ceil(low / self.multiple_of) * self.multiple_of
        return max(first, min(nearest, high // self.multiple_of * self.multiple_of))

    def at(self, fraction: float) -> Scalar:
        low, high = self.log_range
        return self._round(math.exp(math.log(low) + fraction * (math.log(high) - math.log(low))))

    def grid(self) -> list[Scalar]:
        return list(dict.fromkeys(self.at(index / (GRID_STEPS - 1)) for index in range(GRID_STEPS)))

    def nearest(self, wanted: Scalar) -> Scalar | None:
        return None if isinstance(wanted, (bool, str)) else self._round(wanted)

    def parts(self) -> Iterator[Part]:
        for index, end in enumerate(self.log_range):
            yield ("log_range", index), end


@dataclass(frozen=True)
class PowersOfTwo:
    keyword: ClassVar[str] = "powers_of_two"
    powers_of_two: tuple[int, int]

    def __post_init__(self) -> None:
        _check_ends("powers_of_two", self.powers_of_two, least=1, whole=True)
        if not self.grid():
            raise ValueError(f"powers_of_two {self.powers_of_two[0]} to {self.powers_of_two[1]} holds no power of two")

    def at(self, fraction: float) -> Scalar:
        return OneOf(tuple(self.grid())).at(fraction)

    def grid(self) -> list[Scalar]:
        low, high = self.powers_of_two
        return [2**power for power in range((low - 1).bit_length(), high.bit_length())]

    def nearest(self, wanted: Scalar) -> Scalar | None:
        return _nearest(self.grid(), wanted)

    def parts(self) -> Iterator[Part]:
        for index, end in enumerate(self.powers_of_two):
            yield ("powers_of_two", index), end


@dataclass(frozen=True)
class Choices:
    keyword: ClassVar[str] = "choices"
    choices: Mapping[Scalar, float]

    def __post_init__(self) -> None:
        if not isinstance(self.choices, Mapping) or not self.choices:
            raise ValueError(
                f"choices needs values with their weights, as in {{1: 0.8, 2: 0.2}} (got {self.choices!r})"
            )
        for value, weight in self.choices.items():
            _check_scalar(value)
            _check_number("choices", weight, whole=False)
            if not weight > 0:
                raise ValueError(f"every weight of choices must be above 0 (got {weight:g} for {value!r})")

    def at(self, fraction: float) -> Scalar:
        bounds = list(itertools.accumulate(self.choices.values()))
        index = bisect.bisect_right(bounds, fraction * bounds[-1])
        return list(self.choices)[min(index, len(bounds) - 1)]

    def grid(self) -> list[Scalar]:
        return list(self.choices)

    def nearest(self, wanted: Scalar) -> Scalar | None:
        return _nearest(self.grid(), wanted)

    def parts(self) -> Iterator[Part]:
        for value in self.choices:
            yield ("choices", str(value)), value


Domain = Fixed | OneOf | Range | LogRange | PowersOfTwo | Choices
DOMAIN_FORMS = (Range, LogRange, PowersOfTwo, Choices)
"""The domains a config writes as a mapping, each under its keyword."""


def parse_domain(written: object) -> Domain:
    """The domain that a config wrote; a `ValueError` with one sentence if it is none.

    >>> parse_domain({"log_range": [8, 64], "multiple_of": 8}).at(0.5)
    24
    """
    if isinstance(written, Mapping):
        return _parse_form(written)
    if isinstance(written, (list, tuple)):
        return OneOf(tuple(written))
    return Fixed(written)  # type: ignore[arg-type]  # checks its value itself


def _parse_form(written: Mapping[object, object]) -> Domain:
    forms = {form.keyword: form for form in DOMAIN_FORMS}
    used = [keyword for keyword in forms if keyword in written]
    if len(used) != 1:
        got = ", ".join(str(key) for key in written) or "nothing"
        near = "" if used else next(filter(None, (did_you_mean(str(key), forms) for key in written)), "")
        raise ValueError(f"needs exactly one of {', '.join(forms)} (got {got}).{near}")
    form = forms[used[0]]
    known = [field.name for field in fields(form)]
    for key in written:
        if key not in known:
            near = did_you_mean(str(key), known)
            raise ValueError(f"{used[0]} knows no {str(key)!r}.{near} Known: {', '.join(known)}")
    tuples = {str(key): tuple(value) if isinstance(value, list) else value for key, value in written.items()}
    return form(**tuples)  # type: ignore[arg-type]  # checks its values itself


def wrong_parts(domain: Domain, mistake: Callable[[Scalar], str | None]) -> list[tuple[Path, str]]:
    """What a check finds wrong with the values a domain was written with, each with its place inside the domain.

    >>> wrong_parts(one_of(1, 0), lambda value: None if value else "must not be 0")
    [((1,), 'must not be 0')]
    """
    checked = ((path, mistake(value)) for path, value in domain.parts())
    return [(path, sentence) for path, sentence in checked if sentence]


def one_of(*values: Scalar) -> OneOf:
    return OneOf(values)


def log_range(low: int, high: int, multiple_of: int = 1) -> LogRange:
    return LogRange((low, high), multiple_of)


def weighted(choices: Mapping[Scalar, float]) -> Choices:
    return Choices(choices)
