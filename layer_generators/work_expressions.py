"""Amounts as a person writes them: a column, or a sum of products of columns and numbers, as in `2*m*n*k + m*n`.

They are read as data. Nothing in them is run, so they may come from a stranger's file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from medn.core.errors import UsageError, unknown

LONGEST = 500
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True)
class Amount:
    terms: tuple[tuple[float, tuple[str, ...]], ...]
    """Each a number and the names of columns, to be multiplied with one another."""

    @classmethod
    def parse(cls, written: str, known: Collection[str]) -> Amount:
        """
        >>> Amount.parse("2*m*n + 8*m", ["m", "n"]).terms
        ((2.0, ('m', 'n')), (8.0, ('m',)))
        """
        if written in known:
            return cls(((1.0, (written,)),))
        if len(written) > LONGEST:
            raise UsageError(f"an amount must be of at most {LONGEST} letters (got {len(written)})")
        return cls(tuple(_term(term, known) for term in written.split("+")))

    def of(self, value: Callable[[str], Any]) -> Any:
        """The amount, `value` giving that of a column: a number, or an array of them.

        >>> Amount.parse("2*m*n + 8*m", ["m", "n"]).of({"m": 3, "n": 5}.__getitem__)
        54
        """
        total: Any = 0
        for number, names in self.terms:
            product: Any = int(number) if number.is_integer() else number
            for name in names:
                product = product * value(name)
            total = total + product
        return total


def _term(written: str, known: Collection[str]) -> tuple[float, tuple[str, ...]]:
    number, names = 1.0, []
    for factor in (part.strip() for part in written.split("*")):
        if factor in known:
            names.append(factor)
        elif NUMBER.fullmatch(factor):
            number *= float(factor)
        else:
            raise UsageError(f"{unknown('column of numbers', factor[:80], known)}; an amount is written as 2*m*n + m")
    if not names or not 0 < number < math.inf:
        raise UsageError(f"{written.strip()[:80]!r} names no column, or multiplies it with nothing")
    return number, tuple(names)
