"""What most families hand back, and what those that learn in steps share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array, Table
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Fitted


@dataclass(frozen=True, eq=False)
class Learned(Fitted):
    """A fitted regressor made of two functions: the library's own prediction, and the export."""

    log_value: Callable[[Array], Array]
    form: Callable[[], Form]
    step_errors: tuple[float, ...] = ()

    def predict(self, inputs: Array) -> Array:
        return np.exp(self.log_value(inputs))

    def export(self) -> Form:
        return self.form()

    @classmethod
    def from_form(cls, form: Form) -> Learned:
        """For families whose fitted state is the deployed form itself."""
        return cls(form.log_value, lambda: form)


class Progress:
    """Follows the validation error of a fit that goes in steps, and says when going on is no use."""

    def __init__(self, validation: Table, effort: Effort, patience: int, report_every: int = 10) -> None:
        self._measured = validation.target
        self._effort = effort
        self._patience = patience
        self._report_every = report_every
        self._lowest = np.inf
        self.errors: list[float] = []
        """The validation error after each step; none where there is nothing to validate by."""
        self.steps = 0
        self.best_step = 0
        """How many steps the best state so far had taken."""

    def step(self, log_value: Array) -> float:
        """Take note of the validation rows' predictions after one more step; their MAPE."""
        self.steps += 1
        if not len(self._measured):
            self.best_step = self.steps  # nothing to choose by: the latest is the best
            return 0.0
        error = float(relative_errors(np.exp(log_value), self._measured).mean())
        self.errors.append(error)
        if error < self._lowest:
            self._lowest, self.best_step = error, self.steps
        if self.steps % self._report_every == 0:
            self._effort.report(self.steps, self._lowest)
        return error

    @property
    def is_over(self) -> bool:
        """Never before the first step: a fit always has something to give."""
        enough = self._effort.steps
        waited = self.steps - self.best_step >= self._patience if enough is None else self.steps >= enough
        return self.steps > 0 and (waited or self._effort.seconds_left <= 0)


@contextmanager
def limited_threads(effort: Effort) -> Iterator[None]:
    """Matrix products keep to the threads of the effort; on a busy machine more of them are many times slower."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(effort.threads):
        yield


def thinned(table: Table, most: int | None, seed: int) -> Table:
    """At most so many rows of a table, drawn at random."""
    if most is None or len(table) <= most:
        return table
    rows = np.random.default_rng(seed).permutation(len(table))[:most]
    return table.take(np.sort(rows))
