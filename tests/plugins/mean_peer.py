"""A peer that needs no environment: it predicts the mean of the logarithm, or fails if it is told to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from experiments.peers.model import Model, Rows

TITLE = "mean"
REQUIREMENTS: tuple[str, ...] = ()


def load_libraries() -> None:
    if os.environ.get("MEAN_PEER_FAILS"):
        raise RuntimeError("told to fail")


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    mean = float(rows.log_latency.mean())
    saved = folder / "trained"
    saved.mkdir(exist_ok=True)
    (saved / "mean.txt").write_text("x" * 1000)
    runs = folder / "runs.txt"
    runs.write_text(runs.read_text() + "run\n" if runs.exists() else "run\n")
    return Model(list, lambda prepared: np.full(len(prepared), mean), (saved,), f"{len(rows.names)} inputs")
