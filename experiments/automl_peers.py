"""medn next to AutoGluon, FLAML and mljar: the same rows, inputs and split, and 60 seconds of one core each.

    python -m experiments.automl_peers --data DATA --out results

Every peer is installed into an environment of its own below --environments, and trained by a process of its own that
is held to one core. All learn the logarithm of the latency from the same rows. Peers choose among their models as they
do by themselves; medn chooses on the validation rows that are among those rows. A run that is broken off goes on where
it was: what a peer found is kept in OUT/automl_peers. Writes automl_peers.{md,json}.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.environments import PeerFailed, interpreter, last_line
from experiments.public import miopen
from experiments.public.task import Task
from experiments.tables import markdown_table, write_tables
from medn.core.errors import MednError, UsageError, unknown
from medn.core.metrics import score

PEERS = {name: f"experiments.peers.{name}" for name in ("autogluon", "flaml", "mljar")}
OWN = "experiments.peers.medn_zoo"
ROOT = Path(__file__).resolve().parents[1]
FASTER = 100.0
"""How many times faster than the fastest peer the fast model of medn is to be."""
BLANK = ("MAPE %", "median %", "within 10 %", "us, 1 row", "ms, 10,000 rows", "MB", "fit s", "fit CPU s", "load before")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        rows, about = run(options)
    except MednError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_tables(options.out, "automl_peers", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--environments", type=Path, default=None, help="default: OUT/environments")
    parser.add_argument("--peers", default=",".join(PEERS), help="peers, separated by commas")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one core, for each")
    parser.add_argument("--core", type=int, default=None, help="which core; by default the last one there is")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    names = [name for name in options.peers.split(",") if name]
    for name in names:
        if name not in PEERS:
            raise UsageError(unknown("peer", name, PEERS))
    (task,) = miopen.load(options.data, options.seed)
    kept = (options.out / "automl_peers").resolve()
    path = write_rows(kept / "rows.npz", task)
    rows = [row for name in names for row in peer_rows(PEERS[name], task, path, options)]
    own = peer_rows(OWN, task, path, options)
    others = [row for row in rows if row["MAPE %"] is not None]
    fastest_us = min((row["us, 1 row"] for row in others), default=None)
    ours = chosen(own, fastest_us / FASTER if fastest_us else None)
    about = {
        "rows": f"{task.name}, {task.about}; {len(task.parts.train) + len(task.parts.validation)} to learn from and "
        f"choose by, {len(task.parts.test)} to test; {len(task.table.schema.names)} inputs",
        "errors": "per cent, on test rows",
        "costs": "medians on one core, by each one's own interface and with rows in the shape it takes fastest",
        "seconds each": options.seconds,
        "seed": options.seed,
        **{row["who"]: compared(row, others) for row in ours if others and row["MAPE %"] is not None},
    }
    rows += ours
    return [{name: value for name, value in row.items() if name != "validation"} for row in rows], about


def write_rows(path: Path, task: Task) -> Path:
    """The rows to learn from, those to choose by last, and the inputs of the rows to test."""
    table, parts = task.table, task.parts
    learned = np.concatenate([parts.train, parts.validation])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        names=np.array(table.schema.names),
        inputs=table.inputs[learned],
        log_latency=np.log(table.latency_s[learned]),
        held_out=len(parts.validation),
        test_inputs=table.inputs[parts.test],
    )
    return path


def peer_rows(module: str, task: Task, rows: Path, options: argparse.Namespace) -> list[Row]:
    """A row for each model that a peer hands back; what goes wrong is the note of the only one."""
    peer = importlib.import_module(module)
    folder = rows.parent / module.rpartition(".")[2]
    asked = {
        "seconds": options.seconds,
        "seed": options.seed,
        "requirements": list(peer.REQUIREMENTS),
        "inputs": list(task.table.schema.names),
        "parts": task.parts.sizes,
    }
    try:
        if not _is_kept(folder, asked):
            environments = (options.environments or options.out / "environments").resolve()
            python = interpreter(folder.name, peer.REQUIREMENTS, environments)
            train(python, module, rows, folder, options)
            (folder / "asked.json").write_text(json.dumps(asked))
    except PeerFailed as reason:
        return [{"who": peer.TITLE, **dict.fromkeys(BLANK), "validation": None, "note": str(reason)}]
    found: Mapping[str, Row] = json.loads((folder / "result.json").read_text())
    with np.load(folder / "predicted.npz") as predicted:
        made = [_row(task, who, costs, np.exp(predicted[who])) for who, costs in found.items()]
    for row in made:
        print(f"{row['who']}: {row['MAPE %']:.2f} %, {row['us, 1 row']:.0f} us", file=sys.stderr, flush=True)
    return made


def _is_kept(folder: Path, asked: Row) -> bool:
    path = folder / "asked.json"
    return path.is_file() and json.loads(path.read_text()) == asked


def train(python: Path, module: str, rows: Path, folder: Path, options: argparse.Namespace) -> None:
    """One process for one peer, which ends in time even where the peer does not keep to its limit."""
    folder.mkdir(parents=True, exist_ok=True)
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
    command = [str(python), "-m", "experiments.peers.child", module, str(rows), str(folder)]
    command += ["--seconds", str(options.seconds), "--seed", str(options.seed), "--core", str(core)]
    most = 10 * options.seconds + 600
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=most
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"was not done after {most:.0f} s") from None
    if done.returncode:
        raise PeerFailed(f"failed: {last_line(done.stderr)}")


def _row(task: Task, who: str, costs: Row, predicted_s: Any) -> Row:
    scores = score(predicted_s, task.table.latency_s[task.parts.test])
    errors = {
        "MAPE %": 100 * scores.mape,
        "median %": 100 * scores.median,
        "within 10 %": 100 * scores.within_10,
    }
    return {"who": who, **errors, **costs}


def chosen(own: Sequence[Row], limit_us: float | None) -> list[Row]:
    """Of medn's models the one with the lowest validation error, and the one with the lowest among the fast."""
    if own[0]["validation"] is None:
        return list(own)
    accurate = min(own, key=lambda row: row["validation"])
    fast = [row for row in own if limit_us and row["us, 1 row"] <= limit_us]
    fastest = min(own, key=lambda row: row["us, 1 row"])
    second = min(fast, key=lambda row: row["validation"]) if fast else fastest
    note = f"the most accurate of those {FASTER:.0f} times faster than the fastest peer" if fast else "the fastest"
    return [accurate | {"note": "the most accurate"}, second | {"note": note}]


def compared(row: Row, others: Sequence[Row]) -> str:
    """A model of medn next to the best of the peers in each respect."""
    error, one, many, size = (
        min(float(other[name]) for other in others) / row[name]
        for name in ("MAPE %", "us, 1 row", "ms, 10,000 rows", "MB")
    )
    return (
        f"next to the best peer in each respect: error {1 / error:.2f} times as large, "
        f"one row {one:.1f} times as fast, 10,000 rows {many:.1f} times as fast, {size:.1f} times as small"
    )


if __name__ == "__main__":
    sys.exit(main())
