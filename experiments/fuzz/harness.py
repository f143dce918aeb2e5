"""What the fuzzers share: numbers drawn from raw bytes, and the loop, guided by atheris where it is installed."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from medn.core.packages import is_installed


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
    if not is_installed("atheris"):
        return nullcontext()
    import atheris

    context: AbstractContextManager[object] = atheris.instrument_imports(include=["medn"])
    return context


def run(once: Callable[[bytes], None], seconds: float) -> None:
    """Try inputs until the time is up; whatever `once` raises ends the run with its traceback."""
    if is_installed("atheris"):
        import atheris

        atheris.Setup([sys.argv[0], f"-max_total_time={seconds:.0f}", "-max_len=256"], once)
        atheris.Fuzz()
        return
    generator, tried, stop = random.Random(0), 0, time.monotonic() + seconds
    while time.monotonic() < stop:
        once(generator.randbytes(generator.randint(0, 256)))
        tried += 1
    print(f"{tried} inputs without atheris, drawn at random: each was answered or refused in one sentence")


STUCK_S = 20
"""An input that takes longer hangs."""


def isolated(once: Callable[[bytes], None], count: int, seed: int) -> list[tuple[int, str]]:
    """Try so many random inputs in child processes; whatever raises, crashes or hangs, with the number of its input."""
    failures: list[tuple[int, str]] = []
    following = 0
    while following < count:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _try_all(once, range(following, count), seed, writing)
        os.close(writing)
        with os.fdopen(reading) as lines:
            last = following
            for line in lines:
                number, _, what = line.rstrip("\n").partition(" ")
                last = int(number)
                failures += [(last, what)] if what else []
        _, status = os.waitpid(child, 0)
        if status:
            failures.append((last, f"the process ended with {os.waitstatus_to_exitcode(status)}"))
        following = last + 1
    return failures


def _try_all(once: Callable[[bytes], None], numbers: range, seed: int, writing: int) -> NoReturn:
    """In the child: say the number of each input before it is tried, and what it raised after."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for number in numbers:
        os.write(writing, f"{number}\n".encode())
        signal.alarm(STUCK_S)
        try:
            once(_input(seed, number))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            os.write(writing, f"{number} {message} ({where.filename}:{where.lineno})\n".encode())
        signal.alarm(0)
    os._exit(0)


def _input(seed: int, number: int) -> bytes:
    return random.Random(f"{seed} {number}").randbytes(256)


MOST_BYTES = 6 << 30
"""Of memory, counted as addresses: what asks for more fails instead of taking the machine with it."""
