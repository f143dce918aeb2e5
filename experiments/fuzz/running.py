"""What the fuzzers share: numbers drawn from raw bytes, and the loop, guided by atheris where it is installed."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class Draw:
    """Numbers read off the bytes that the fuzzer mutates; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def between(self, low: int, high: int) -> int:
        if high <= low:
            return low
        size = ((high - low).bit_length() + 7) // 8
        drawn = int.from_bytes(self._data[self._place : self._place + size], "little")
        self._place += size
        return low + drawn % (high - low + 1)

    def rest(self) -> str:
        return self._data[self._place :].decode(errors="replace")


def damaged(whole: bytes, draw: Draw) -> bytes:
    """With some bytes exchanged, and sometimes cut off."""
    changed = bytearray(whole)
    for _ in range(draw.between(1, 8)):
        place = draw.between(0, len(changed) - 1)
        changed[place] = draw.between(0, 255)
    return bytes(changed[: draw.between(0, len(changed))] if draw.between(0, 3) == 0 else changed)


def instrumented() -> AbstractContextManager[object]:
    """What is imported inside tells atheris which ways it takes; without atheris it is imported as ever."""
    if not importlib.util.find_spec("atheris"):
        return nullcontext()
    import atheris

    context: AbstractContextManager[object] = atheris.instrument_imports(include=["medn"])
    return context


def run(once: Callable[[bytes], None], seconds: float) -> None:
    """Try inputs until the time is up; whatever `once` raises ends the run with its traceback."""
    if importlib.util.find_spec("atheris"):
        import atheris

        atheris.Setup([sys.argv[0], f"-max_total_time={seconds:.0f}", "-max_len=256"], once)
        atheris.Fuzz()
        return
    generator, tried, stop = random.Random(0), 0, time.monotonic() + seconds
    while time.monotonic() < stop:
        once(generator.randbytes(generator.randint(0, 256)))
        tried += 1
    print(f"{tried} inputs without atheris, drawn at random: each was answered or refused in one sentence")
