"""AutoGluon: boosted trees, forests and neighbours, weighted by validation rows, then refitted on all rows."""

from __future__ import annotations

from pathlib import Path

from experiments.peers.model import Model, Rows, frame

TITLE = "AutoGluon"
REQUIREMENTS = ("autogluon.tabular[lightgbm,catboost,xgboost]==1.6.3",)
TARGET = "log_latency"
PRESET = "medium_quality"
HELD_OUT = 0.15


def load_libraries() -> None:
    import autogluon.tabular  # noqa: F401


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    from autogluon.tabular import TabularPredictor

    predictor = TabularPredictor(
        label=TARGET,
        problem_type="regression",
        eval_metric="mean_absolute_error",
        path=str(folder / "trained"),
        verbosity=0,
    )
    learned = frame(rows, rows.inputs).assign(**{TARGET: rows.log_latency})
    is_held_out = rows.held_out(HELD_OUT, seed)
    predictor.fit(
        learned[~is_held_out],
        tuning_data=learned[is_held_out],
        time_limit=seconds,
        presets=PRESET,
        refit_full=True,
        set_best_to_refit_full=True,
        num_cpus=1,
        num_gpus=0,
    )
    deployed = Path(predictor.clone_for_deployment(str(folder / "deployed")))
    predictor.persist()
    note = f"the log by its mean absolute error; {PRESET}, refitted and persisted; {predictor.model_best}"
    return Model(lambda inputs: frame(rows, inputs), predictor.predict, (deployed,), note)
