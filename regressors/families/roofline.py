"""The roofline, fitted: a few numbers that follow the hardware's limits and extrapolate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.metrics import relative_errors
from medn.core.table import Array, Table
from medn.regressors.encoding import Encoding
from medn.regressors.fitted import Learned, limited_threads, thinned
from medn.regressors.forms.roofline import WORK, Columns, Law, Roofline, Seen, see
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

ROWS = 4000
"""A roofline has few numbers: more rows than these do not make it better."""


@regressors.register
class RooflineRegressor(Regressor):
    name = "roofline"
    description = "arithmetic or memory traffic at a fitted share of the best rate seen"
    extrapolates = True
    share = 1.0
    packages = ("scipy",)
    defaults = {"starts": 2, "restraint": 0.3}
    """`restraint` holds back the influence of inputs other than the work."""

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        """The influence of other inputs than the work is a second step: validation rows say whether to take it.

        It helps between measured layers and misleads beyond them; which of the two matters, those rows say.
        """
        if effort.steps is not None or not len(validation):
            return Learned.from_form(_fit(train, settings, effort, is_shaped=(effort.steps or 1) > 1))
        plain, shaped = (_fit(train, settings, effort, is_shaped) for is_shaped in (False, True))
        errors = [
            float(relative_errors(form.predict(validation.inputs), validation.target).mean())
            for form in (plain, shaped)
        ]
        return replace(Learned.from_form(shaped if errors[1] < errors[0] else plain), step_errors=tuple(errors))


def plain_roofline(train: Table, effort: Effort) -> Roofline | None:
    """The same where the inputs tell the work; None where they do not."""
    try:
        Columns.find(train.schema)
    except UsageError:
        return None
    return fit_plain_roofline(train, effort)


def fit_plain_roofline(train: Table, effort: Effort) -> Roofline:
    """How latency grows with the work alone: what the other inputs add between measured layers misleads beyond them."""
    return _fit(train, {**RooflineRegressor.defaults, "starts": 1}, effort, is_shaped=False)


def _fit(train: Table, settings: Settings, effort: Effort, is_shaped: bool) -> Roofline:
    columns = Columns.find(train.schema)
    encoding = Encoding.fit(train.schema, train.inputs)
    peak, overhead, bounds = _limits(train, columns, encoding)
    table = thinned(train, ROWS, effort.seed)
    seen = see(columns, encoding, bounds, table.inputs)
    seen = replace(seen, device=_places(seen.device, len(peak) - 1))
    kept = [place for place, name in enumerate(encoding.names) if is_shaped and _shapes(name)]
    problem = Problem(seen, np.log(table.target), peak, overhead, np.array(kept, dtype=int), settings["restraint"])
    with limited_threads(effort):
        return Roofline(columns, encoding, bounds, problem.solve(settings["starts"], effort))


def _places(devices: Array, known: int) -> NDArray[np.intp]:
    """Places of devices in tables; the one after the known ones stands for any other."""
    return np.where((devices < 0) | (devices >= known), known, devices).astype(np.intp)


def _shapes(encoded_name: str) -> bool:
    """Whether an encoded input may move the share of the peak; the work and the use by others have their own terms."""
    return encoded_name.removeprefix("log ") not in (*WORK, "utilization")


def _limits(train: Table, columns: Columns, encoding: Encoding) -> tuple[Array, Array, Array]:
    """Best rates and lowest latency per device, and the measured range."""
    log_work, logs = columns.log_work(train.inputs), np.log(train.target)
    known = len(train.schema.categories["device"]) if columns.device is not None else 1
    device = _places(columns.devices(train.inputs), known)
    rates = log_work - logs[:, None]
    peak = np.full((known + 1, 2), np.nan)
    overhead = np.full(known + 1, np.nan)
    for place in np.unique(device):
        peak[place], overhead[place] = rates[device == place].max(axis=0), logs[device == place].min()
    # A device without rows is taken for the typical one.
    peak = np.where(np.isnan(peak), np.nanmedian(peak, axis=0), peak)
    overhead = np.where(np.isnan(overhead), np.nanmedian(overhead), overhead)
    measured = np.hstack([encoding.transform(train.inputs), log_work])
    return peak, overhead, np.array([measured.min(axis=0), measured.max(axis=0)])


@dataclass(frozen=True, eq=False)
class Problem:
    """Least squares over a vector: offsets, growths, sharpness, contention, overheads per device, weights."""

    seen: Seen
    logs: Array
    peak: Array
    overhead: Array
    kept: NDArray[np.int_]
    """The encoded inputs that may move the share of the peak."""
    restraint: float

    def solve(self, starts: int, effort: Effort) -> Law:
        from scipy.optimize import least_squares

        random = np.random.default_rng(effort.seed)
        low, high = self._bounds()
        solutions: list[Any] = []
        while not solutions or (len(solutions) < starts and effort.seconds_left > 0):
            solution = least_squares(
                self._residuals,
                np.clip(self._start(random, spread=min(len(solutions), 1)), low + 1e-6, high - 1e-6),
                jac=self._jacobian,
                bounds=(low, high),
                loss="soft_l1",
                f_scale=0.1,
                ftol=1e-4,
                max_nfev=60,
            )
            solutions.append(solution)
        return self.law(min(solutions, key=lambda solution: solution.cost).x)

    def law(self, vector: Array) -> Law:
        devices = len(self.overhead)
        weights = np.zeros((self.seen.shaping.shape[1], 2))
        weights[self.kept] = vector[6 + devices :].reshape(-1, 2)
        return Law(
            peak=self.peak,
            overhead=self.overhead + vector[6 : 6 + devices],
            offset=vector[:2] - vector[2:4] * self._middle,
            growth=vector[2:4],
            weights=weights,
            sharpness=float(vector[4]),
            contention=float(vector[5]),
        )

    @property
    def _middle(self) -> Array:
        return np.asarray(self.seen.held_work.mean(axis=0))

    def _start(self, random: np.random.Generator, spread: float) -> Array:
        others = len(self.overhead) + 2 * len(self.kept)
        middle = np.array([0.0, 0.0, 0.5, 0.5, 2.0, 0.5] + [0.0] * others)
        return middle + spread * random.normal(0.0, [1.0, 1.0, 0.3, 0.3, 1.0, 0.2] + [0.3] * others)

    def _bounds(self) -> tuple[Array, Array]:
        devices, weights = len(self.overhead), 2 * len(self.kept)
        low = [-10, -10, 0, 0, 1, 0] + [-5] * devices + [-5] * weights
        high = [10, 10, 1, 1, 8, 0.98] + [1] * devices + [5] * weights
        return np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)

    def _residuals(self, vector: Array) -> Array:
        errors = self.law(vector).log_value(self.seen) - self.logs
        return np.concatenate([errors, self._held_back * vector])

    @property
    def _held_back(self) -> Array:
        """Few rows leave most numbers open: what is not the core of the law is drawn a little towards zero."""
        others = len(self.overhead) + 2 * len(self.kept)
        return self.restraint * np.array([0.1, 0.1, 0.0, 0.0, 0.0, 0.1] + [1.0] * others)

    def _jacobian(self, vector: Array) -> Array:
        law, seen = self.law(vector), self.seen
        times, odds = law.times(seen)
        slower = law.slower(times)
        working = 1 / (1 + np.exp(law.overhead[seen.device] - slower))
        arithmetic = 1 / (1 + np.exp(law.sharpness * (times[:, 1] - times[:, 0])))
        shares = np.column_stack([arithmetic, 1 - arithmetic])
        by_odds = -working[:, None] * shares / (1 + np.exp(odds))
        by_sharpness = working * ((shares * times).sum(axis=1) - slower) / law.sharpness
        by_contention = seen.busy / (1 - law.contention * seen.busy)
        by_overhead = (1 - working)[:, None] * (seen.device[:, None] == np.arange(len(self.overhead)))
        by_weights = (seen.shaping[:, self.kept, None] * by_odds[:, None, :]).reshape(len(times), -1)
        by_growth = by_odds * (seen.held_work - self._middle)
        columns = [by_odds, by_growth, by_sharpness[:, None], by_contention[:, None], by_overhead, by_weights]
        return np.vstack([np.hstack(columns), np.diag(self._held_back)])
