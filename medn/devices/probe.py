"""What a probe is: a number read off the machine beside each visit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from medn.core.errors import reason_of
from medn.core.registry import Registry


class Probe(ABC):
    """A reading of the machine. One subclass in one file, with `@probes.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]

    @abstractmethod
    def read(self) -> float | None:
        """The value now; None where this machine does not tell."""


@dataclass(frozen=True)
class FileProbe:
    """A number in a file that the system keeps up to date, such as a temperature under /sys."""

    name: str
    file: Path
    scale: float = 1.0

    def read(self) -> float | None:
        try:
            return float(self.file.read_text()) * self.scale
        except (OSError, ValueError):
            return None


class ReadsNumber(Protocol):
    """A probe, shipped or declared in a config."""

    @property
    def name(self) -> str: ...

    def read(self) -> float | None: ...


def reading(probe: ReadsNumber) -> tuple[float | None, str]:
    """What a probe says now, or None and why: a probe is somebody else's code, and must not end what it is read beside.

    >>> reading(FileProbe("temperature", Path("/nowhere")))
    (None, '')
    """
    try:
        value = probe.read()
        number = None if value is None else float(value)
    except Exception as error:
        return None, reason_of(error)
    if number is not None and not math.isfinite(number):
        return None, f"it read {number}, which is no finite number"
    return number, ""


probes: Registry[Probe] = Registry("probe", package="medn.devices.probes")
