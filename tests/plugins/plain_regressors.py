"""Small regressors for tests of training: one that learns, and some that go wrong in every way a family can."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.form import Form, Parts, forms
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors


@forms.register
@dataclass(frozen=True)
class PowerLaw(Form):
    """Latency as a power of one column."""

    name = "test-power-law"
    column: int
    slope: float
    offset: float

    def log_value(self, inputs: Array) -> Array:
        return np.asarray(self.slope * np.log(inputs[:, self.column]) + self.offset)

    def parts(self) -> Parts:
        return Parts(self.name, {"column": self.column}, {"line": np.array([self.slope, self.offset])})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> PowerLaw:
        slope, offset = parts.arrays["line"]
        return cls(parts.facts["column"], float(slope), float(offset))


@dataclass(frozen=True)
class FittedLaw(Fitted):
    law: PowerLaw
    exported: PowerLaw

    def predict(self, inputs: Array) -> Array:
        return self.law.predict(inputs)

    def export(self) -> Form:
        return self.exported


def fit_law(train: Table, settings: Settings) -> PowerLaw:
    column = train.schema.index("flops")
    slope = settings.get("slope", 1.0)
    offset = float(np.median(np.log(train.target) - slope * np.log(train.inputs[:, column])))
    return PowerLaw(column, slope, offset)


@regressors.register
class Law(Regressor):
    name = "test-law"
    description = "a power of the FLOPs, its exponent searched for"
    extrapolates = True
    defaults = {"slope": 0.5}

    def suggest(self, trial: Any) -> Settings:
        return {"slope": trial.suggest_float("slope", 0.2, 1.5)}

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        law = fit_law(train, settings)
        return FittedLaw(law, law)


@regressors.register
class NearLaw(Law):
    name = "test-near"
    description = "the same, but its search begins near what is right"
    defaults = {"slope": 0.75}


@regressors.register
class SharedLaw(Law):
    name = "test-shared"
    description = "one exponent for all kinds"
    shares_kinds = True


@regressors.register
class Broken(Regressor):
    name = "test-broken"
    description = "always fails"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        raise RuntimeError("this family always fails\nand says more")


@regressors.register
class Lying(Regressor):
    name = "test-lying"
    description = "exports something else than it fitted"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        law = fit_law(train, settings)
        return FittedLaw(law, PowerLaw(law.column, law.slope, law.offset + 0.01))


@regressors.register
class Hasty(Regressor):
    name = "test-hasty"
    description = "ten times as long as the slowest layer, for lack of time"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        law = PowerLaw(0, 0.0, float(np.log(10 * train.target.max())))
        return FittedLaw(law, law)


@forms.register
@dataclass(frozen=True)
class Cliff(PowerLaw):
    """The same, and next to nothing for the layers with most work."""

    name = "test-cliff"
    edge: float = 0.0

    def log_value(self, inputs: Array) -> Array:
        return np.asarray(super().log_value(inputs) - 600.0 * (inputs[:, self.column] > self.edge))

    def parts(self) -> Parts:
        line = np.array([self.slope, self.offset, self.edge])
        return Parts(self.name, {"column": self.column}, {"line": line})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Cliff:
        slope, offset, edge = parts.arrays["line"].tolist()
        return cls(parts.facts["column"], slope, offset, edge)


@regressors.register
class Falling(Regressor):
    name = "test-falling"
    description = (
        "good but for a fifth of the layers, which it says take no time: intervals hold them that reach to nothing"
    )

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        law = fit_law(train, {"slope": 0.75})
        edge = float(np.quantile(train.inputs[:, law.column], 0.8))
        cliff = Cliff(law.column, law.slope, law.offset, edge)
        return FittedLaw(cliff, cliff)


@regressors.register
class Absent(Regressor):
    name = "test-absent"
    description = "needs a library that does not exist"
    packages = ("no_such_library",)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        raise AssertionError("not reached")


@regressors.register
class Stuck(Regressor):
    name = "test-stuck"
    description = "says that it has begun and never ends, as long as an environment variable says so"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        if file := os.environ.get("MEDN_TEST_STUCK"):
            Path(file).touch()
            time.sleep(600)
        law = fit_law(train, settings)
        return FittedLaw(law, law)
