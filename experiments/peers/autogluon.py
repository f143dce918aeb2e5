"""AutoGluon: boosted trees, forests and neighbours, weighted by validation rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.peers.model import Array, Model, Rows

TITLE = "AutoGluon"
REQUIREMENTS = ("autogluon.tabular[lightgbm,catboost,xgboost]==1.6.3",)
TARGET = "log_latency"
PRESET = "medium_quality"


def load_libraries() -> None:
    import autogluon.tabular  # noqa: F401


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> list[Model]:
    import pandas
    from autogluon.tabular import TabularPredictor

    def frame(inputs: Array) -> Any:
        return pandas.DataFrame(inputs, columns=rows.names)

    predictor = TabularPredictor(
        label=TARGET,
        problem_type="regression",
        eval_metric="mean_absolute_error",
        path=str(folder / "trained"),
        verbosity=0,
    )
    learned = frame(rows.inputs).assign(**{TARGET: rows.log_latency})
    predictor.fit(learned, time_limit=seconds, presets=PRESET, num_cpus=1, num_gpus=0)
    deployed = Path(predictor.clone_for_deployment(str(folder / "deployed")))
    predictor.persist()
    note = f"learned the log by its mean absolute error; {PRESET}, found {predictor.model_best}"
    return [Model(TITLE, frame, predictor.predict, (deployed,), note)]
