"""mljar-supervised: boosted trees, forests and a small network in folds, put together by an ensemble."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.peers.model import Model, Rows, frame

TITLE = "mljar"
REQUIREMENTS = ("mljar-supervised==1.3.2",)
MODE = "Compete"


def load_libraries() -> None:
    import supervised  # noqa: F401


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    from supervised import AutoML

    trained = folder / "trained"
    search = AutoML(
        results_path=str(trained),
        mode=MODE,
        ml_task="regression",
        eval_metric="mae",
        total_time_limit=round(seconds),
        n_jobs=1,
        random_state=seed,
        verbose=0,
    )
    search.fit(frame(rows, rows.inputs), rows.log_latency)
    chosen = json.loads((trained / "params.json").read_text())
    note = f"the log by its mean absolute error; {MODE}; {chosen['best_model']}"
    saved = tuple(trained / name for name in ("params.json", "data_info.json", *chosen["load_on_predict"]))
    return Model(lambda inputs: frame(rows, inputs), search.predict, saved, note)
