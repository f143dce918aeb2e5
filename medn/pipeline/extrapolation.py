"""How wrong a regressor is for layers with more work than any it learned from.

The same settings are fitted once more on the rows with the least work, and judged on held-out rows above them, where
the efficiency at the edge is held as in a shipped prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from medn.core.metrics import score
from medn.core.ranges import WORK_COLUMNS, learn_range
from medn.core.table import Array, Table
from medn.core.values import plain
from medn.deployed.calibration import UNCALIBRATED
from medn.deployed.deployed import Deployed
from medn.layer_generators.kind import LayerKind
from medn.pipeline.inputs import remainders
from medn.pipeline.judging import Prepared
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings

LEAST_WORK = 0.8
"""The share of training rows that is learned from."""

FEWEST_ROWS = 8
"""With fewer rows on either side the error says nothing."""


@dataclass(frozen=True, eq=False)
class Halves:
    """One kind cut in two by the work of its layers."""

    train: Table
    validation: Table
    beyond: tuple[Table, ...]
    above: float
    """The work up to which is learned."""

    @property
    def is_enough(self) -> bool:
        return min(len(self.train), len(self.validation), sum(map(len, self.beyond))) >= FEWEST_ROWS


def work(table: Table) -> Array:
    """How much there is to do in each row: FLOPs, else bytes, else all sizes multiplied."""
    for name in WORK_COLUMNS:
        if name in table.schema.names:
            return table.column(name)
    sizes = [1.0 + np.abs(table.column(name)) for name in table.schema.numeric]
    return np.asarray(np.prod(sizes, axis=0)) if sizes else np.ones(len(table))


def cut(prepared: Prepared) -> Halves:
    above = float(np.quantile(work(prepared.train), LEAST_WORK))
    below = [part.take(work(part) <= above) for part in (prepared.train, prepared.validation)]
    beyond = [part.take(work(part) > above) for part in (prepared.validation, prepared.test)]
    return Halves(below[0], below[1], tuple(beyond), above)


def extrapolation_scores(
    regressor: Regressor, tables: Mapping[str, Prepared], settings: Settings, effort: Effort
) -> dict[str, dict[str, Any]]:
    """By kind, the scores beyond the least work; a kind with too few rows on either side is left out."""
    halves = {kind: found for kind, prepared in tables.items() if (found := cut(prepared)).is_enough}
    if not halves:
        return {}
    pairs = {kind: (each.train, each.validation) for kind, each in halves.items()}
    fitted = regressor.fit_together(pairs, settings, effort)
    kinds = {kind: tables[kind].source.layer_kind for kind in halves}
    return {kind: _scores(kinds[kind], each, fitted[kind], effort.seed) for kind, each in halves.items()}


def _scores(kind: LayerKind, halves: Halves, fitted: Fitted, seed: int) -> dict[str, Any]:
    known = learn_range(halves.train, halves.validation, seed, remainders(kind))
    deployed = Deployed(fitted.export(), known, UNCALIBRATED, {})
    predicted_s = np.concatenate([deployed.predict(part.inputs) for part in halves.beyond])
    measured_s = np.concatenate([part.latency_s for part in halves.beyond])
    found: dict[str, Any] = plain(score(predicted_s, measured_s).as_json() | {"above": halves.above})
    return found
