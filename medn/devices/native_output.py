"""Keep what native libraries print away from the terminal, and at hand for the reason of a failure."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def captured_prints() -> Iterator[Callable[[], str]]:
    """Whatever this process prints inside, from Python or below it; the value given tells what it was so far."""
    _flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    with tempfile.TemporaryFile() as log:

        def printed() -> str:
            _flush()
            log.seek(0)
            return log.read().decode(errors="replace")

        for descriptor in kept:
            os.dup2(log.fileno(), descriptor)
        try:
            yield printed
        finally:
            _flush()
            for descriptor, original in kept.items():
                os.dup2(original, descriptor)
                os.close(original)


def _flush() -> None:
    """Empty the buffers of Python and of the C library, before the place they write to changes."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
