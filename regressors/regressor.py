"""What a regressor is: settings to search, a fit, and an export to the form that is deployed.

Every regressor learns the logarithm of the latency, or a relative loss, and is scored on the real scale.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from medn.core.packages import missing
from medn.core.registry import Registry
from medn.core.table import Array, Table
from medn.regressors.form import Form

if TYPE_CHECKING:
    import optuna

Settings = Mapping[str, Any]

MANY_ROWS = 20_000


@dataclass(frozen=True)
class Effort:
    """What one fit may cost. A fit that notices it is out of time stops and keeps the best it has."""

    seconds: float = 60.0
    seed: int = 0
    threads: int = 1
    report: Callable[[int, float], None] = field(default=lambda step, error: None)
    """Called with the step and the validation MAPE while a fit goes on; may raise to stop a hopeless trial."""
    steps: int | None = None
    """For families that learn in steps: exactly so many, where it is known how many are best."""
    clock: Callable[[], float] = time.monotonic
    """`time.process_time` counts computing only, so that other programs take nothing from a fit."""
    began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began", self.clock())

    @property
    def seconds_left(self) -> float:
        return self.seconds - (self.clock() - self.began)

    def part(self, seconds: float) -> Effort:
        """An effort that begins now, for a part of the work."""
        return replace(self, seconds=seconds)


class Fitted(ABC):
    """A regressor that has learned, in its own library."""

    step_errors: tuple[float, ...] = ()
    """The validation error after each step, for families that stop where it is lowest."""

    @abstractmethod
    def predict(self, inputs: Array) -> Array:
        """What was learned, in its unit, by the library that trained it."""

    @abstractmethod
    def export(self) -> Form:
        """The deployed form: the same predictions without the training library."""


class Regressor(ABC):
    """One family of regressors. One subclass in one file, with `@regressors.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    """What must be importable to train it."""
    extra: ClassVar[str] = "train"
    """The extra of medn that installs them."""
    defaults: ClassVar[Settings] = {}
    """Good settings to start the search from."""
    fixable: ClassVar[Settings] = {}
    """Further settings, with their defaults: they are not searched, but a training can fix them."""
    for_many_rows: ClassVar[Settings] = {}
    """What else is better from `MANY_ROWS` rows on: more rows bear larger trees, and need them."""
    shares_kinds: ClassVar[bool] = False
    """Whether it is fitted once for all kinds of a device, by `fit_together`."""
    share: ClassVar[float] = 1.0
    """How much of the tuning time it gets, next to the other families."""
    is_late: ClassVar[bool] = False
    """Whether others are fitted before it where many families compete for little time: it seldom wins there."""
    fills_time: ClassVar[bool] = False
    """Whether it learns for as long as it is given, so that a short fit does not tell what a longer one takes."""
    extrapolates: ClassVar[bool] = False
    """Whether its predictions go on sensibly beyond what it has seen, where no check says otherwise."""
    learns_further: ClassVar[bool] = False
    """Whether it learns the memory and energy of layers as well: for families that are quick to ask and small."""
    further_rows: ClassVar[int] = 0
    """With fewer rows than this it does not, and of quantities that light families learn well never: it is larger."""
    needs_sources: ClassVar[bool] = False
    """Whether it leans on what is known of other devices, and so learns only where there are any (`medn adapt`)."""
    needs_source_rows: ClassVar[bool] = False
    """Whether it learns from what was measured there, and so only where the runs of these devices are known."""
    only_by_name: ClassVar[bool] = False
    """Whether it is trained only where it is named: it takes long, and has seldom been better than quicker ones."""
    largest: ClassVar[int | None] = None
    """More rows than this are thinned out before fitting, for families whose cost grows faster than the rows."""

    def missing(self) -> str | None:
        """Why this regressor cannot be trained here and what to install, in one sentence; None if it can."""
        return missing(self.name, self.packages, self.extra)

    def prepare(self) -> None:
        """Import what a fit needs: it is called before the time of the first fit in a process begins."""
        for package in self.packages:
            importlib.import_module(package)

    def suggest(self, trial: optuna.Trial) -> Settings:
        """The search space. A family without settings is fitted once."""
        return self.defaults

    def start(self, rows: int) -> Settings:
        """Good settings to start the search from, for a table of so many rows."""
        return {**self.defaults, **self.for_many_rows} if rows >= MANY_ROWS else self.defaults

    @property
    def is_tunable(self) -> bool:
        return type(self).suggest is not Regressor.suggest

    @abstractmethod
    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        """Learn from `train`; `validation` is for early stopping only, never for learning."""

    def fit_together(
        self, tables: Mapping[str, tuple[Table, Table]], settings: Settings, effort: Effort
    ) -> Mapping[str, Fitted]:
        """Learn the tables of several kinds at once, each a pair to learn from and to stop by; one result per kind.

        A family that shares nothing between kinds fits them one by one, each in an equal part of the time left.
        """
        fitted = {}
        for place, (kind, (train, validation)) in enumerate(tables.items()):
            share = effort.seconds_left / (len(tables) - place)
            fitted[kind] = self.fit(train, validation, settings, effort.part(share))
        return fitted


regressors: Registry[Regressor] = Registry("regressor", package="medn.regressors.families")


def usual_families(has_sources: bool = False, has_source_rows: bool = False) -> list[str]:
    """What is trained where nothing is named: of what is no part of `train`, only that which is installed."""
    return [
        each.name
        for each in regressors.values()
        if (each.extra == Regressor.extra or not each.missing())
        and (has_sources or not each.needs_sources)
        and (has_source_rows or not each.needs_source_rows)
        and not each.only_by_name
    ]
