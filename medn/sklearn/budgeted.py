"""The whole way of a run, for a table of numbers: train every family, and choose what ships within a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from medn.core.errors import MednError
from medn.core.table import Array
from medn.sklearn.families import TableRegressor
from medn.sklearn.numbers import EstimatorError, TargetScale, column_names

if TYPE_CHECKING:
    from medn.choosing.leaderboard import Leaderboard
    from medn.predictor.predictor import Predictor

KIND = DEVICE = "table"
TARGET = "target"
FEWEST_ROWS = 8
"""With fewer no split says anything; the same as for layers."""


class BudgetedRegressor(TableRegressor):
    """The most accurate regressor or ensemble within a budget of prediction time and size, chosen from all families.

    The table becomes a run of its own, which is trained and selected from as any other: `medn train` and `medn select`
    for X and y. What was chosen is fitted on every row in the end; `leaderboard_` and `chosen_` tell what it is, and
    `save` writes it as a bundle.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(1, 100, (60, 2))
    >>> model = BudgetedRegressor(max_kb=30, families=["median", "ridge"], seconds=4).fit(X, X[:, 0] * X[:, 1])
    >>> model.chosen_, len(model.bundle_) <= 30_000
    ('ridge', True)

    Parameters
    ----------
    max_us : microseconds a row, in queries of `rows` rows (1, 100 or 10000)
    max_kb : thousands of bytes of the bundle
    mode : accuracy, balanced, fast or small: what to do with what the limits leave open
    families : names of regressors; all that are installed where it is None
    settings : of families, by name, that are fixed instead of searched
    seconds : for training, beside the loading of libraries; `jobs` processes share it
    target : "log", "plain", or "auto" for logarithms where all targets are above 0
    random_state : of the split and of the fits
    """

    def __init__(
        self,
        max_us: float | None = None,
        max_kb: float | None = None,
        *,
        mode: str = "accuracy",
        rows: int = 1,
        families: Sequence[str] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        seconds: float = 60.0,
        jobs: int = 1,
        target: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.max_us = max_us
        self.max_kb = max_kb
        self.mode = mode
        self.rows = rows
        self.families = families
        self.settings = settings
        self.seconds = seconds
        self.jobs = jobs
        self.target = target
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """How many trials fit into the time, and what is fast enough, depends on how busy the machine is."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train and choose, in a folder that is gone afterwards."""
        inputs, target = self._checked(X, y, FEWEST_ROWS)
        self.scale_ = TargetScale.of(target, self.target)
        self.columns_ = column_names(getattr(self, "feature_names_in_", None), inputs.shape[1])
        with tempfile.TemporaryDirectory(prefix="medn-") as folder:
            try:
                self._choose(Path(folder) / KIND, inputs, self.scale_.learned(target))
            except EstimatorError:
                raise
            except MednError as error:
                raise EstimatorError(str(error)) from None
        return self

    def _choose(self, run: Path, inputs: Array, target: Array) -> None:
        from medn.choosing.bundling import bundle_run
        from medn.choosing.select_run import select_run
        from medn.selection.budget import Budget
        from medn.training.config import checked_settings
        from medn.training.train_run import train_run

        budget = Budget(self.mode, self.rows, self.max_us, self.max_kb)
        settings = checked_settings(self.settings or {}, type(self).__name__)
        self._import(run, inputs, target)
        train_run(
            run, seconds=self.seconds, families=self.families or (), jobs=self.jobs, seed=self._seed, settings=settings
        )
        try:
            outcome = select_run(run, budget, refit_all=True)
        except MednError:  # fitted on every row it may be too large, or not succeed: then it stays as it was chosen
            outcome = select_run(run, budget)
        self.refitted_ = outcome.leaderboard.refit_all
        self.chosen_ = outcome.chosen[0].regressor
        self.leaderboard_: Leaderboard = outcome.leaderboard
        self.bundle_ = bundle_run(run, outcome.chosen).read_bytes()
        self._predictor = self._loaded()

    def _import(self, run: Path, inputs: Array, target: Array) -> None:
        """The table as a layer kind of its own, as `medn import --kind` makes one of a file."""
        import pyarrow
        import pyarrow.parquet

        from medn.importing.import_table import import_table
        from medn.importing.mapping import mapping_model
        from medn.layer_generators.declared_kind import DeclaredKind, column
        from medn.runs.folder import RunFolder

        names = self.columns_
        file = run.with_suffix(".parquet")
        table = {name: inputs[:, place] for place, name in enumerate(names)}
        pyarrow.parquet.write_table(pyarrow.table({**table, TARGET: target}), file)
        columns = {name: name for name in names}
        mapping = mapping_model().model_validate(
            {"kind": KIND, "device": DEVICE, "latency_s": TARGET, "columns": columns}
        )
        work, traffic = (name if name in names else None for name in ("flops", "moved_bytes"))
        parameters = tuple(column(name, float) for name in names)
        declared = DeclaredKind(KIND, parameters, work=work, traffic=traffic)
        import_table(file, mapping, RunFolder(run), declared=declared)

    def _logs(self, inputs: Array) -> Array:
        table = {name: inputs[:, place] for place, name in enumerate(self.columns_)}
        return np.log(self._predictor.predict(table, KIND).latency_s)

    def _loaded(self) -> Predictor:
        from medn.predictor.predictor import load

        with tempfile.TemporaryDirectory(prefix="medn-") as folder:
            return load(self.save(Path(folder) / f"{KIND}.medn"))

    def save(self, path: str | Path) -> Path:
        """Write the bundle, which `medn.load`, `medn serve` and `medn inspect` take as any other.

        There the columns are named x0, x1 and so on, and what is predicted is the target on the scale that was learned.
        """
        Path(path).write_bytes(self.bundle_)
        return Path(path)

    def __getstate__(self) -> dict[str, Any]:
        """The bundle is enough to go on with."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_predictor"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(dict(state))
        if "bundle_" in state:
            self._predictor = self._loaded()
