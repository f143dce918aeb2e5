"""A layer as a form sees it that learned on another device, or from other columns: its inputs, made from a row here.

Most inputs are columns of the row by another place. What follows from a device's data sheet is worked out once more
with the sheet of the other device, of columns that the row has. What lies beyond all that the form has seen is taken to
the nearest edge, and the latency there grows with the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LARGEST, check_array
from medn.core.table import MOST_INPUTS, MOST_TEXTS, Array
from medn.program.formulas import beside, looked_up, rounded, rows_of

SCALED, LARGER, SHARE, FILLED, CODE = range(5)
"""What becomes of the first column, times its factor, and the second, times its own: the first alone; the larger of
both; the share of the first in both; how full the last of so many waves is; another code for the same category."""

ROUNDING = 3e-7
"""Waves that are a whole number but for so much are that number: columns hold few digits."""


@dataclass(frozen=True, eq=False)
class View:
    """How the inputs of a form follow from a row that may have others."""

    constants: Array
    """Numbers that no row has; they count as columns behind those of the row."""
    operation: NDArray[np.int8]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    """The columns of each input; of a category the second is where its codes begin."""
    factors: Array
    """Those of the first and of the second column: two rows. Of a category how many codes there are, and the usual."""
    codes: NDArray[np.int32]
    """By the codes of the row, one category after the other, those of the form."""
    low: Array
    high: Array
    """What the form has seen of each input; far apart where that says nothing."""
    work: NDArray[np.int32]
    """The inputs that say how much work there is."""

    @property
    def width(self) -> int:
        """How many inputs the form takes."""
        return len(self.operation)

    def inputs(self, rows: Array) -> Array:
        """The inputs of the form, in numbers that fit float32 as those it learned from do; a formula."""
        columns = beside(rows, self.constants)
        groups = [(code, np.flatnonzero(self.operation == code)) for code in range(CODE + 1)]
        parts = [self._made(code, places, columns) for code, places in groups if len(places)]
        order = np.argsort(np.concatenate([places for _, places in groups]))
        return rounded(np.concatenate(parts, axis=1).take(order, axis=1))

    def _made(self, operation: int, places: NDArray[np.intp], columns: Array) -> Array:
        """The inputs at these places, which are all made alike."""
        own: Array = columns.take(self.first[places], axis=1)
        if operation == CODE:
            return np.concatenate([self._coded(own[:, i], place)[:, None] for i, place in enumerate(places)], axis=1)
        own = own * self.factors[0, places]
        if operation == SCALED:
            return own
        if operation == FILLED:
            waves: Array = np.maximum(np.ceil(own * (1.0 - ROUNDING)), 1.0)
            return np.minimum(own / waves, 1.0)
        other: Array = columns.take(self.second[places], axis=1) * self.factors[1, places]
        return np.maximum(own, other) if operation == LARGER else _share(own, other)

    def _coded(self, given: Array, place: np.intp) -> Array:
        """A category that the form does not know is taken for the usual one."""
        start, (count, usual) = self.second[place], self.factors[:, place]
        codes = self.codes[start : start + max(0, int(np.ceil(count)))]
        return looked_up(np.append(codes, usual), given)

    def nearest(self, inputs: Array) -> tuple[Array, Array]:
        """The inputs within what the form has seen, and the logarithm of how many times as much work there is."""
        within = np.minimum(np.maximum(inputs, self.low), self.high)
        if not len(self.work):
            return within, rows_of(inputs, 0.0)
        asked, seen = (np.log(np.maximum(each.take(self.work, axis=1), 1.0)) for each in (inputs, within))
        return within, (asked - seen).max(axis=1)

    def check(self, width: int) -> None:
        """That it can be worked out for any row of so many inputs. Raises a ValueError that says why not."""
        own, columns = self.width, width + len(self.constants)
        if not 0 < own <= MOST_INPUTS or len(self.constants) > MOST_INPUTS or len(self.codes) > MOST_TEXTS:
            raise ValueError(f"a view must have 1 to {MOST_INPUTS} inputs")
        check_array("the constants of a view", self.constants, self.constants.shape[:1])
        check_array("the operations of a view", self.operation, (own,), "i", SCALED, CODE)
        check_array("the columns of a view", self.first, (own,), "i", 0, columns - 1)
        is_code = self.operation == CODE
        last = np.where(is_code, len(self.codes), columns) - 1
        check_array("the columns of a view", self.second, (own,), "i", 0, max(columns, len(self.codes)) - 1)
        check_array("the factors of a view", self.factors, (2, own))
        check_array("the codes of a view", self.codes, self.codes.shape[:1], "i", -1, MOST_TEXTS)
        if (self.second > last).any() or (is_code & (self.second + self.factors[0] > len(self.codes))).any():
            raise ValueError("the columns of a view lead astray")
        for what, array in (("lowest", self.low), ("highest", self.high)):
            check_array(f"the {what} numbers of a view", array, (own,))
        if not (self.low <= self.high).all():
            raise ValueError("what a view has seen must end at or above its start")
        check_array("the work of a view", self.work, self.work.shape[:1], "i", 0, own - 1)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> View:
        return cls(**{each.name: arrays[each.name] for each in fields(cls)})

    @classmethod
    def same(cls, width: int) -> View:
        """That of a form with the same inputs, whatever they are."""
        columns = np.arange(width, dtype=np.int32)
        none = np.zeros(0, dtype=np.int32)
        ends = np.full(width, LARGEST)
        ones = np.ones((2, width))
        return cls(np.zeros(0), np.zeros(width, np.int8), columns, columns, ones, none, -ends, ends, none)


def _share(own: Array, other: Array) -> Array:
    both = own + other
    known = both != 0
    return np.where(known, own, 0.0) / np.where(known, both, 1.0)
