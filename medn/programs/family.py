"""What predicts tensor programs: a way to read them, a fit, and the form that ships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from medn.core.packages import missing
from medn.core.registry import Registry
from medn.programs.programs import MeasuredPrograms
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Settings


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a family learns from."""

    train: MeasuredPrograms
    validation: MeasuredPrograms
    """Programs of other tasks, to stop by."""
    devices: tuple[str, ...]
    unlabelled: MeasuredPrograms | None = None
    """Programs of where it is to predict, whose latencies are not looked at."""
    settings: Settings = field(default_factory=dict)
    """In place of the family's own."""


class ProgramFamily(ABC):
    """One family. One subclass in one file of `medn/programs/families`, with `@program_families.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    encoding: ClassVar[str]
    """Which of `ENCODINGS` it reads."""
    packages: ClassVar[tuple[str, ...]] = ()

    def missing(self) -> str | None:
        return missing(self.name, self.packages)

    @abstractmethod
    def fit(self, lesson: Lesson, effort: Effort) -> Form:
        """The deployed form: it gives the logarithm of the latency of encoded programs."""


program_families: Registry[ProgramFamily] = Registry("program family", package="medn.programs.families")
