"""Everybody trained on the same rows: what is written for them, and how each is started, kept and scored."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.environments import PeerFailed, interpreter
from experiments.peers.model import Rows
from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.table import Array
from medn.core.text import last_line
from medn.runs.inputs import InputChoice, remainders
from medn.runs.tables import kind_table, read_source

PEERS = {name: f"experiments.peers.{name}" for name in ("autogluon", "flaml", "mljar")}
RAW, PREPARED = "raw columns", "medn's inputs"
ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Allowed:
    """What everybody gets."""

    seconds: float
    core: int
    environments: Path
    """Where each peer is installed."""


@dataclass(frozen=True)
class Trained:
    """One program on one table with one seed."""

    who: str
    inputs: str
    error: float | None
    costs: Mapping[str, Any]
    note: str


def core_of(asked: int | None) -> int:
    """The core that was asked for; by default the last one there is."""
    return max(os.sched_getaffinity(0)) if asked is None else asked


def write_rows(run: Path, seed: int, folder: Path) -> Array:
    """Write the rows of a run for the peers, split as `medn train` splits them; the latencies of the test rows."""
    source = read_source(run)
    (kind,) = source.rows
    made = kind_table(source, kind)
    parts = Split().parts(made.table, seed, made.is_test, remainders(made.layer_kind))
    raw = kind_table(source, kind, choice=InputChoice(("raw",))).table
    for name, table in ((RAW, raw), (PREPARED, made.table)):
        categories = {category: np.array(names) for category, names in table.schema.categories.items()}
        learned = table.take(parts.learned)
        names, test = list(table.schema.names), table.inputs[parts.test]
        rows = Rows(names, categories, learned.inputs, np.log(learned.target), learned.groups, test)
        rows.write(rows_file(folder, name))
    return made.table.target[parts.test]


def rows_file(folder: Path, inputs: str) -> Path:
    return folder / ("raw.npz" if inputs == RAW else "prepared.npz")


def trained(module: str, inputs: str, folder: Path, measured_s: Array, seed: int, allowed: Allowed) -> Trained:
    """One program trained, or as it was kept; what goes wrong is its note."""
    peer = importlib.import_module(module)
    own = folder / f"{module.rpartition('.')[2]}-{rows_file(folder, inputs).stem}"
    request = {"seconds": allowed.seconds, "requirements": list(peer.REQUIREMENTS)}
    try:
        if not _is_kept(own, request):
            python = interpreter(module.rpartition(".")[2], peer.REQUIREMENTS, allowed.environments)
            _train(python, module, rows_file(folder, inputs), own, seed, allowed)
            (own / "asked.json").write_text(json.dumps(request))
    except PeerFailed as reason:
        return Trained(peer.TITLE, inputs, None, {}, str(reason))
    costs: dict[str, Any] = json.loads((own / "result.json").read_text())
    error = score(np.exp(np.load(own / "predicted.npy")), measured_s).mape
    message = f"{folder.parent.name}, {folder.name}: {peer.TITLE}, {inputs}: {100 * error:.2f} %"
    print(f"{message}, {costs['us, 1 row']:.0f} us, {costs['fit CPU s']:.0f} CPU s", file=sys.stderr, flush=True)
    return Trained(peer.TITLE, inputs, error, costs, costs["note"])


def _is_kept(folder: Path, request: Mapping[str, Any]) -> bool:
    path = folder / "asked.json"
    return path.is_file() and json.loads(path.read_text()) == request


def _train(python: Path, module: str, rows: Path, folder: Path, seed: int, allowed: Allowed) -> None:
    """One process for one program, which ends in time even where the program does not keep to its limit."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "experiments.peers.child", module, str(rows), str(folder)]
    command += ["--seconds", str(allowed.seconds), "--seed", str(seed), "--core", str(allowed.core)]
    most = 10 * allowed.seconds + 600
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=most
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"was not done after {most:.0f} s") from None
    if done.returncode:
        raise PeerFailed(f"failed: {last_line(done.stderr)}")
