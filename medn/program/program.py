"""A flat program: what leads from the numbers of a row to other numbers, as a list of steps without loops or branches.

Every step makes one value of values before it. A value is one or more numbers of each row, in double precision or,
where a network multiplies matrices, in single. Flags are the numbers 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ELEMENTWISE = {
    **dict.fromkeys(
        (
            *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "minimum", "maximum"),
            *("less", "less_equal", "equal"),
        ),
        2,
    ),
    **dict.fromkeys(("log", "log1p", "exp", "sqrt", "sin", "cos", "floor", "rint", "absolute", "rounded"), 1),
    "where": 3,
}
"""What is done number by number, by the names that NumPy has for it, with how many values each takes. `rounded` gives
the nearest number that single precision holds. A value of one number stands for as many as the others have."""

INPUT, CONSTANT = "input", "constant"


class OnlyWhere(NamedTuple):
    """A step that only the rows need whose flag is like this; it may be left out where there is no such row."""

    flag: int
    truth: bool


class ProgramStep(NamedTuple):
    """One value and how it is made."""

    operation: str
    arguments: tuple[int, ...]
    """The places of the steps whose values it takes."""
    width: int
    """How many numbers of each row the value has."""
    single: bool = False
    """Whether it is in single precision."""
    data: Any = None
    """What the operation needs beside values: places, an array, or a table."""
    condition: OnlyWhere | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """Steps in an order in which they can be run, and those whose values are asked for."""

    steps: tuple[ProgramStep, ...]
    outputs: tuple[int, ...]
    inputs: int
    """How many numbers a row comes with; the first step is all of them."""

    @property
    def width(self) -> int:
        """How many numbers of each row come out."""
        return sum(self.steps[place].width for place in self.outputs)


def pruned(steps: Sequence[ProgramStep], outputs: Sequence[int]) -> Program:
    """The program of these steps without those that no output needs."""
    needed = {0, *outputs}
    for place in range(len(steps) - 1, -1, -1):
        if place in needed:
            step = steps[place]
            needed.update(step.arguments)
            if step.condition:
                needed.add(step.condition.flag)
    kept = sorted(needed)
    moved = {place: index for index, place in enumerate(kept)}
    found = []
    for place in kept:
        step = steps[place]
        condition = step.condition and OnlyWhere(moved[step.condition.flag], step.condition.truth)
        found.append(step._replace(arguments=tuple(moved[each] for each in step.arguments), condition=condition))
    return Program(tuple(found), tuple(moved[place] for place in outputs), steps[0].width)
