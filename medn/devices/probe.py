"""What a probe is: a number read off the machine beside each visit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

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


probes: Registry[Probe] = Registry("probe", package="medn.devices.probes")
