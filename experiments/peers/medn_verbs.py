"""medn as its users have it: `medn train` and `medn select` on a run, and the bundle that comes out.

The run lies beside the rows, imported from the same table; it holds the same layers and splits them by the same seed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.model import Array, Model, Rows

TITLE = "medn"
REQUIREMENTS = ()
RUN = "run"


def load_libraries() -> None:
    """Each verb is a process of its own and imports what it needs within its time."""


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    run = copied(folder.parent / RUN, folder / RUN)
    verb("train", str(run), "--time", f"{seconds:g}", "--jobs", "1", "--seed", str(seed))
    return chosen(rows, run, f"medn train --time {seconds:g} --jobs 1, medn select")


def copied(run: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(run, to))


def chosen(rows: Rows, run: Path, how: str, *limits: str) -> Model:
    """What `medn select` ships of a run that is trained, as a program asks it."""
    import medn

    verb("select", str(run), *limits)
    bundle = run / f"{RUN}.medn"
    predictor = medn.load(bundle)
    (kind,) = predictor.kinds
    (found,) = json.loads(verb("leaderboard", str(run), "--chosen", "--json"))["rows"]

    def parameters(inputs: Array) -> dict[str, Any]:
        return {name: column[0].item() for name, column in _whole(rows.columns(inputs)).items()}

    return Model(
        prepare=lambda inputs: _whole(rows.columns(inputs)),
        predict=lambda columns: np.log(predictor.predict(columns, kind).latency_s),
        saved=(bundle,),
        note=f"{how}; {found['candidate']}",
        prepare_one=parameters,
        predict_one=lambda query: predictor.layer(kind, **query),
    )


def _whole(columns: dict[str, Any]) -> dict[str, Any]:
    """Sizes as integers, as a program that asks has them."""
    return {
        name: column.astype(int) if column.dtype.kind == "f" and (column == np.round(column)).all() else column
        for name, column in columns.items()
    }


def verb(*arguments: str) -> str:
    """What `medn` prints, asked as a program of its own."""
    done = subprocess.run([sys.executable, "-m", "medn", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"medn {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
