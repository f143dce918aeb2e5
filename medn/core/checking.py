"""Checks of what is read from a file, before anything is computed with it: each raises a ValueError with a sentence.

Whoever holds the numbers checks them, as only they know what fits. Limits on sizes keep a small file from asking for
much memory or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from medn.core.text import shown

LARGEST = 1e100
"""No number that something is computed with may be larger, so that products of two stay finite."""

LARGEST_LOG = 700.0
"""Of seconds, bytes or joules: what is larger has no exponential."""

LONGEST_NAME = 200
LONGEST_TEXT = 1_000


def check_numbers(what: str, numbers: Iterable[Any], low: float = -LARGEST, high: float = LARGEST) -> None:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not low <= number <= high:
            raise ValueError(f"{what} must be a number from {low:g} to {high:g} (got {shown(number)})")


def check_whole(what: str, number: Any, low: int, high: int) -> None:
    if type(number) is not int or not low <= number <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high} (got {shown(number)})")


def check_array(
    what: str, array: Any, shape: tuple[int, ...], kind: str = "f", low: float = -LARGEST, high: float = LARGEST
) -> None:
    """An array of this shape and kind of numbers, all between two bounds; NaN is between none."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kind:
        raise ValueError(f"{what} must be an array of {'whole ' if kind == 'i' else ''}numbers")
    if array.shape != shape:
        raise ValueError(f"{what} must have the shape {shape} (got {array.shape})")
    if array.size and not (array.min().item() >= low and array.max().item() <= high):
        raise ValueError(f"{what} must be between {low:g} and {high:g}")


def check_name(what: str, name: Any) -> None:
    """A text that stands in sentences, tables and pages: short, and nothing that a terminal obeys."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise ValueError(f"{what} must be a string of 1 to {LONGEST_NAME} letters (got {shown(name)})")


def check_scalars(what: str, values: Mapping[Any, Any]) -> None:
    """Values by name, each a number, a flag or a string of bounded length."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must have names (got {shown(values)})")
    for name, value in values.items():
        check_name(f"a name of {what}", name)
        if isinstance(value, str):
            if len(value) > LONGEST_TEXT:
                raise ValueError(f"{what} of {name} must be a string of at most {LONGEST_TEXT} letters")
        elif not isinstance(value, bool):
            check_numbers(f"{what} of {name}", [value])
