"""One family of regressors as an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from medn.core.errors import reason_of
from medn.core.splits import split_by_group
from medn.core.table import Array, Schema, Table
from medn.deployed.packing import Json, pack, unpack
from medn.network.design import DEFAULTS
from medn.regressors.form import Form, restore
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.sklearn.numbers import EstimatorError, TargetScale, column_names, rounded
from medn.training.config import checked_settings
from medn.training.learning import best_steps, refit

FEWEST_ROWS = 2
FEWEST_TO_HOLD_OUT = 20
"""With fewer different rows nothing is held out to find the best number of steps by."""

FRACTIONS = (0.85, 0.15, 0.0, 0.0)
"""To learn from and to hold out; nothing has to be kept to calibrate or to test by."""


class TableRegressor(RegressorMixin, BaseEstimator):
    """What estimators of medn share: numbers in, the deployed form of what was learned, numbers out."""

    scale_: TargetScale

    def _checked(self, X: Any, y: Any, fewest: int) -> tuple[Array, Array]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=fewest)
        return rounded(X), np.asarray(y, dtype=np.float64)

    def predict(self, X: Any) -> Array:
        """The target of each row."""
        check_is_fitted(self)
        return self.scale_.values(self._logs(rounded(validate_data(self, X, dtype=np.float64, reset=False))))

    def _logs(self, inputs: Array) -> Array:
        raise NotImplementedError

    @property
    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))


class FamilyRegressor(TableRegressor):
    """Any family of medn, as `medn list regressors` shows them, with its settings.

    Boosted families stop where rows that are held out err least, and are then fitted on all rows.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(1, 100, (60, 2))
    >>> model = FamilyRegressor("gaussian_process").fit(X, X[:, 0] * X[:, 1])
    >>> round(float(model.score(X, X[:, 0] * X[:, 1])), 2)
    1.0

    Parameters
    ----------
    family : the name of a regressor
    settings : of the family, by name; those left out have their defaults
    target : "log", "plain", or "auto" for logarithms where all targets are above 0
    seconds : that a fit may take at most
    random_state : of the fit; the same one gives the same predictions
    """

    def __init__(
        self,
        family: str = "lightgbm",
        settings: Mapping[str, Any] | None = None,
        *,
        target: str = "auto",
        seconds: float = 60.0,
        random_state: Any = 0,
    ) -> None:
        self.family = family
        self.settings = settings
        self.target = target
        self.seconds = seconds
        self.random_state = random_state

    def _chosen(self) -> tuple[str, Settings]:
        return self.family, self.settings or {}

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the rows of X, one target for each."""
        inputs, target = self._checked(X, y, FEWEST_ROWS)
        try:
            form = self._learned(inputs, target)
        except EstimatorError:
            raise
        except Exception as failure:  # a family may fail in any way its library does
            raise EstimatorError(f"{self._chosen()[0]}: {reason_of(failure)}") from failure
        self.form_ = form
        return self

    def _learned(self, inputs: Array, target: Array) -> Form:
        family, given = self._chosen()
        regressor = regressors[family]
        if sentence := regressor.missing():
            raise EstimatorError(sentence)
        # A search hands over numbers of numpy.
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        settings = checked_settings({family: plain}, type(self).__name__)[regressor.name]
        self.scale_ = TargetScale.of(target, self.target)
        names = column_names(getattr(self, "feature_names_in_", None), inputs.shape[1])
        table = Table(Schema(tuple(names)), inputs, self.scale_.learned(target), _groups(inputs))
        settings = {**regressor.start(len(table)), **settings}
        regressor.prepare()
        effort = Effort(self.seconds, self._seed)
        steps = _best_steps(regressor, table, settings, effort.part(self.seconds / 2))
        fitted = refit(regressor, {"table": table}, settings, [steps], effort.part(effort.seconds_left))
        return fitted["table"].export()

    def _logs(self, inputs: Array) -> Array:
        return self.form_.log_value(inputs)

    def __getstate__(self) -> dict[str, Any]:
        """A form is pickled as the plain arrays that it is made of: a session of a runtime cannot be."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "form_": pack(self.form_.parts())} if "form_" in state else state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(dict(state))
        if "form_" in state:
            packed: tuple[Json, dict[str, Any]] = state["form_"]
            self.form_ = restore(unpack(*packed), self.n_features_in_)


class MednRegressor(FamilyRegressor):
    """MEDN, the multi-task encoder-decoder network; what is None has the network's own default.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(1, 100, (60, 2))
    >>> MednRegressor(width=32, epochs=2).fit(X, X[:, 0] * X[:, 1]).predict(X[:2]).shape
    (2,)

    Parameters
    ----------
    width, blocks, hidden : of the encoder
    frequencies, frequency_spread : sines and cosines per input
    epochs, learning_rate, weight_decay, relative_share, patience : of the training
    target, seconds, random_state : as of `FamilyRegressor`
    """

    def __init__(
        self,
        width: int | None = None,
        blocks: int | None = None,
        hidden: int | None = None,
        *,
        frequencies: int | None = None,
        frequency_spread: float | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        relative_share: float | None = None,
        patience: float | None = None,
        target: str = "auto",
        seconds: float = 60.0,
        random_state: Any = 0,
    ) -> None:
        self.width = width
        self.blocks = blocks
        self.hidden = hidden
        self.frequencies = frequencies
        self.frequency_spread = frequency_spread
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.relative_share = relative_share
        self.patience = patience
        self.target = target
        self.seconds = seconds
        self.random_state = random_state

    def _chosen(self) -> tuple[str, Settings]:
        given = {name: value for name, value in self.get_params().items() if name in DEFAULTS and value is not None}
        return "medn", given


def _best_steps(regressor: Regressor, table: Table, settings: Settings, effort: Effort) -> int | None:
    """By rows that are held out; None for a family without steps, and where there are too few rows."""
    if len(np.unique(table.groups)) < FEWEST_TO_HOLD_OUT:
        return None
    rows = split_by_group(table.groups, effort.seed, FRACTIONS)
    return best_steps([regressor.fit(table.take(rows.train), table.take(rows.validation), settings, effort)])


def _groups(inputs: Array) -> Any:
    """Rows that are alike stay on one side of a split."""
    _, places = np.unique(inputs, axis=0, return_inverse=True)
    return places.reshape(-1).astype(np.str_)
