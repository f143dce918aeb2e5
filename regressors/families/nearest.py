"""K nearest neighbours among the measured points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.encoding import Encoding
from medn.regressors.fitted import Learned, thinned
from medn.regressors.forms.nearest import Nearest
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna


@regressors.register
class NearestNeighbours(Regressor):
    name = "nearest"
    description = "the mean of the nearest measured points, nearer ones counting more"
    share = 0.3
    defaults = {"neighbours": 5, "power": 2.0, "relevance": 0.5}
    """`relevance` 0 counts all inputs alike in a distance, 1 in proportion to their linear effect on the latency."""
    largest = 20_000

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {
            "neighbours": trial.suggest_int("neighbours", 1, 20, log=True),
            "power": trial.suggest_float("power", 0.0, 4.0),
            "relevance": trial.suggest_float("relevance", 0.0, 1.0),
        }

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        table = thinned(train, self.largest, effort.seed)
        encoding = Encoding.fit(table.schema, table.inputs)
        encoded, logs = encoding.transform(table.inputs), np.log(table.target)
        relevance = _effects(encoded, logs) ** settings["relevance"]
        points = (encoded * relevance).astype(np.float32)
        neighbours = min(settings["neighbours"], len(table))
        return Learned.from_form(
            Nearest(encoding, relevance, points, logs.astype(np.float32), neighbours, settings["power"])
        )


def _effects(encoded: Array, logs: Array) -> Array:
    """The size of each input's linear effect, relative to the largest; none is left out altogether."""
    squares = encoded.T @ encoded + 0.01 * len(encoded) * np.eye(encoded.shape[1])
    sizes = np.abs(np.linalg.solve(squares, encoded.T @ (logs - logs.mean())))
    return np.asarray(np.maximum(sizes / max(sizes.max(initial=0.0), 1e-12), 0.02))
