"""Keep something busy for a given share of the time, correcting itself against what it really used.

Run as a script this is one process of the background load, so it imports nothing but the standard library.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from collections.abc import Callable

PERIOD_S = 0.005
"""Short against a visit, so that every visit sees the average; long against the clock's and the scheduler's slack."""

LONGEST_DEBT_S = 0.02
"""What could not be used because others held the core is forgotten beyond this: a load must not catch up later."""

SETTLING_S = 0.15
"""How long a load takes until it holds another share."""

_SLOT = struct.Struct("=d")


def run_duty_cycle(
    target: Callable[[], float],
    work: Callable[[], None],
    used_s: Callable[[], float],
    alive: Callable[[], bool],
    report: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Work and rest in turn until not `alive`, so that the used time stays at `target` of the passing time.

    `used_s` is what the work has really taken; whatever a sleep overshoots is made good in the next period.
    """
    began, used_before, debt = clock(), used_s(), 0.0
    while alive():
        share = target()
        started = clock()
        while debt > 0 and clock() - started < PERIOD_S:
            work()
            used = used_s()
            debt -= used - used_before
            used_before = used
            report(used)
        rest = PERIOD_S - (clock() - started)
        if rest > 0:
            sleep(rest)
        now = clock()
        debt = min(debt + share * (now - began), LONGEST_DEBT_S) if share > 0 else 0.0
        began = now


class SharedNumbers:
    """A row of numbers in a file that several processes map: the target first, then one counter per process."""

    def __init__(self, file: int, count: int) -> None:
        self._memory = mmap.mmap(file, count * _SLOT.size)

    def __getitem__(self, index: int) -> float:
        return float(_SLOT.unpack_from(self._memory, index * _SLOT.size)[0])

    def __setitem__(self, index: int, value: float) -> None:
        _SLOT.pack_into(self._memory, index * _SLOT.size, value)


def _spin() -> None:
    for _ in range(200):
        pass


def main(index: int, count: int, core: int, parent: int) -> None:
    """One load process, bound to one core, until the parent is gone. The shared file is its standard input."""
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    shared = SharedNumbers(sys.stdin.fileno(), count)
    run_duty_cycle(
        target=lambda: shared[0],
        work=_spin,
        used_s=time.thread_time,
        alive=lambda: os.getppid() == parent,
        report=lambda used: shared.__setitem__(index, used),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
