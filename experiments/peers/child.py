"""Trains one peer and times it: run by the peer's own interpreter, held to one core.

    python -m experiments.peers.child MODULE ROWS.npz FOLDER --seconds 60 --seed 0 --core 0

Writes FOLDER/result.json (what the model costs) and FOLDER/predicted.npy (what it predicts for the test rows).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.model import Model, Rows

MANY_ROWS = 10_000
TIMING_SHARE = 1 / 30
"""Of the seconds to learn: how long one row is predicted again and again, and 10,000 of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", help="the module of the peer")
    parser.add_argument("rows", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=None)
    options = parser.parse_args()
    if options.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    peer = importlib.import_module(options.peer)
    rows = Rows.read(options.rows)
    peer.load_libraries()
    load = os.getloadavg()[0]
    began, cpu_began = time.perf_counter(), _cpu_seconds()
    model: Model = peer.fit(rows, options.seconds, options.seed, options.folder)
    spent = {"fit s": time.perf_counter() - began, "fit CPU s": _cpu_seconds() - cpu_began, "load before": load}
    np.save(options.folder / "predicted.npy", np.asarray(model.predict(model.prepare(rows.test))).reshape(-1))
    facts = costs(model, rows.test, TIMING_SHARE * options.seconds) | spent | {"note": model.note}
    (options.folder / "result.json").write_text(json.dumps(facts))


def _cpu_seconds() -> float:
    """Of this process and of those it has started and seen end."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def costs(model: Model, inputs: Any, timing_s: float) -> dict[str, Any]:
    """Median microseconds of one row, the same of the estimator inside, milliseconds of 10,000, megabytes on disk."""
    prepare_one = model.prepare_one or model.prepare
    # No row twice: who remembers answers shall not be timed on remembering.
    single = (prepare_one(inputs[place : place + 1]) for place in range(len(inputs)))
    many = itertools.repeat(model.prepare(np.resize(inputs, (MANY_ROWS, inputs.shape[1]))))
    bare = None
    if model.prepare_bare and model.predict_bare:
        ready = (model.prepare_bare(inputs[place : place + 1]) for place in range(len(inputs)))
        bare = 1e6 * _usual_seconds(model.predict_bare, ready, timing_s)
    return {
        "us, 1 row": 1e6 * _usual_seconds(model.predict_one or model.predict, single, timing_s),
        "us, 1 row, bare": bare,
        "ms, 10,000 rows": 1e3 * _usual_seconds(model.predict, many, timing_s),
        "MB": sum(map(_size_bytes, model.saved)) / 1e6,
    }


def _usual_seconds(predict: Callable[[Any], Any], questions: Iterator[Any], timing_s: float) -> float:
    """The median over questions, as many as fit into the time, after one to warm up. Processor time: everybody has one
    thread, and what other programs do on the core counts for nobody."""
    predict(next(questions))
    times: list[float] = []
    stop = time.perf_counter() + timing_s
    for question in questions:
        began = time.process_time()
        predict(question)
        times.append(time.process_time() - began)
        if time.perf_counter() > stop:
            break
    return statistics.median(times)


def _size_bytes(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


if __name__ == "__main__":
    main()
