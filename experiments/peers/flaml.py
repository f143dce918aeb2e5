"""FLAML: a search over boosted trees and forests, CatBoost among them, cheap trials first; refitted on all rows."""

from __future__ import annotations

import pickle
from pathlib import Path

from experiments.peers.model import Model, Rows, frame

TITLE = "FLAML"
REQUIREMENTS = ("flaml[automl]==2.7.0", "catboost==1.2.10")


def load_libraries() -> None:
    import catboost  # noqa: F401
    import flaml.automl  # noqa: F401


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    import numpy as np
    from flaml import AutoML

    search = AutoML()
    search.fit(
        frame(rows, rows.inputs),
        rows.log_latency,
        task="regression",
        metric="mae",
        time_budget=seconds,
        split_type="group",
        groups=np.unique(rows.groups, return_inverse=True)[1],
        retrain_full=True,
        n_jobs=1,
        seed=seed,
        verbose=0,
    )
    path = folder / "model.pickle"
    path.write_bytes(pickle.dumps(search))
    note = f"the log by its mean absolute error, refitted; {search.best_estimator}"
    return Model(
        prepare=lambda inputs: frame(rows, inputs),
        predict=search.predict,
        saved=(path,),
        note=note,
        prepare_bare=lambda inputs: search.model._preprocess(
            search._state.task.preprocess(frame(rows, inputs), search._transformer)
        ),
        predict_bare=search.model.estimator.predict,
    )
