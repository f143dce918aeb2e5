"""What of a query lies outside what was measured, and where the edge is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from medn.core.text import shown
from medn.core.values import Scalar

COMBINATION = "combination"
"""Stands for the name where every value was measured, but nothing like all of them together."""

NAMED = 3
"""Values that a sentence tells one by one."""


class Outside(NamedTuple):
    """One value that lies outside.

    >>> print(Outside("out_channels", 4096, 7.5, 612.0), Outside("bias", True, known=(False,)), sep=", ")
    out_channels=4096 (edge: 612), bias=True (measured: False)
    """

    name: str
    value: Scalar
    low: float | None = None
    high: float | None = None
    """The lowest and the highest number that still count as measured; None for what is not told by bounds."""
    known: tuple[Scalar, ...] = ()
    """The values that were measured, where they are no range."""

    def __str__(self) -> str:
        if self.name == COMBINATION:
            return f"no value by itself, but all together: {self.value:.3g} times as far off as the edge"
        if self.low is None or self.high is None:
            return f"{self.name}={_told(self.value)} (measured: {', '.join(map(_told, self.known))})"
        edge = self.low if isinstance(self.value, int | float) and self.value < self.low else self.high
        return f"{self.name}={_told(self.value)} (edge: {edge:.4g})"

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "known": list(self.known), "sentence": str(self)}


def told(outside: Sequence[Outside]) -> str:
    """All of it in one line; the first few where there are many.

    >>> told([Outside(name, 9.0, 1.0, 2.0) for name in "abcd"])
    'a=9 (edge: 2), b=9 (edge: 2), c=9 (edge: 2) and 1 more'
    """
    more = f" and {len(outside) - NAMED} more" if len(outside) > NAMED else ""
    return ", ".join(map(str, outside[:NAMED])) + more


def _told(value: Scalar) -> str:
    """
    >>> _told(1.5e9), _told(4096), _told("relu"), _told(True)
    ('1.5e+09', '4096', 'relu', 'True')
    """
    return shown(value).strip("'") if isinstance(value, str | bool) else f"{value:.6g}"
