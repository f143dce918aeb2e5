"""Which engine runs programs here: C where it was built, NumPy anywhere else, or what MEDN_ENGINE says."""

from __future__ import annotations

import os
from functools import cache

from medn.program.c_engine import CMachine, is_built, why_missing
from medn.program.numpy_engine import NumpyMachine
from medn.program.program import Program
from medn.program.symbols import Untraceable

VARIABLE = "MEDN_ENGINE"
C, NUMPY = "c", "numpy"

Machine = CMachine | NumpyMachine


@cache
def engine() -> str:
    """C or NUMPY."""
    wanted = os.environ.get(VARIABLE, "").lower()
    return NUMPY if wanted == NUMPY or not is_built() else C


def machine(program: Program) -> Machine:
    """The program, ready to be run; by NumPy where the C engine does not know one of its steps."""
    if engine() == C:
        try:
            return CMachine(program)
        except Untraceable:
            pass
    return NumpyMachine(program)


def described() -> str:
    """Which engine runs, and why it is not the faster one."""
    if engine() == C:
        return "C"
    if is_built():
        return f"NumPy, as {VARIABLE} says"
    return f"NumPy: {why_missing()}"
