"""Peak memory of what happens inside a block, as the operating system sees it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_PROCESS = Path("/proc/self")


class PeakMemory:
    """Growth of the resident set at its peak. Linux only: elsewhere `bytes` stays None and `reason` says why.

    >>> with PeakMemory() as peak:
    ...     block = bytearray(50_000_000)
    >>> peak.bytes is None or peak.bytes > 40_000_000
    True
    """

    def __init__(self, process: Path = _PROCESS) -> None:
        self.process = process
        self.bytes: int | None = None
        self.reason = ""

    def __enter__(self) -> PeakMemory:
        try:
            _return_free_memory()
            (self.process / "clear_refs").write_text("5")  # resets the high-water mark
            self._before = _status_bytes(self.process, "VmRSS")
        except OSError as error:
            self.reason = f"the peak of resident memory cannot be reset here ({error.strerror or error})"
        return self

    def __exit__(self, *_: object) -> None:
        if not self.reason:
            self.bytes = max(0, _status_bytes(self.process, "VmHWM") - self._before)


def _return_free_memory() -> None:
    """Give freed blocks back to the system, so that the layer's own allocations count as growth."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _status_bytes(process: Path, field: str) -> int:
    for line in (process / "status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{process}/status has no {field}")


def available_bytes() -> int:
    """What a new process could still get."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        import psutil

        return int(psutil.virtual_memory().available)


def limit_memory(share: float = 0.85) -> None:
    """Let this process fail by itself before it drives the machine out of memory.

    The limit is on address space: what is mapped now plus a share of what is free now.
    """
    try:
        import resource

        mapped = _status_bytes(_PROCESS, "VmSize")
        limit = mapped + int(available_bytes() * share)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        return  # no such limits on this system: the parent still survives a child that is ended
