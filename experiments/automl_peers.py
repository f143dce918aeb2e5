"""medn next to AutoGluon and FLAML: the same rows, split by layer, and as many seconds of one core for each.

    python -m experiments.automl_peers --data DATA --out results

Every table is imported as a user would (`medn import`). medn is what a user runs: `medn train --time 60 --jobs 1` and
`medn select`, then the bundle is asked. Peers learn the same rows twice: from the raw columns of the table, and from
the inputs that medn makes of them. Each peer is installed into an environment of its own below --environments, and
everybody is trained by a process of its own that is held to one core. What was found is kept in OUT/automl_peers, so a
run that is broken off goes on where it was. Writes automl_peers.{md,json}.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.environments import PeerFailed, interpreter
from experiments.peers.medn_verbs import RUN, verb
from experiments.peers.model import Rows
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.errors import UsageError, unknown
from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.table import Array
from medn.core.text import last_line
from medn.runs.inputs import InputChoice
from medn.runs.tables import kind_table, read_source

PEERS = {name: f"experiments.peers.{name}" for name in ("autogluon", "flaml", "mljar")}
OWN = "experiments.peers.medn_verbs"
ROOT = Path(__file__).resolve().parents[1]
IMPORTS = ROOT / "experiments" / "imports"
RAW, PREPARED = "raw columns", "medn's inputs"
COSTS = ("us, 1 row", "ms, 10,000 rows", "MB", "fit s", "fit CPU s")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Row = dict[str, Any]

TABLES: Mapping[str, tuple[str, str]] = {
    "cde conv2d": ("cde_layers.csv.gz", "cde_conv2d.yaml"),
    "miopen conv2d": ("miopen_conv_fwd.csv.gz", "miopen_conv2d.yaml"),
    "neusight bmm": ("neusight_ops.csv.gz", "neusight_bmm.yaml"),
    "aic gemm": ("aic_gemm.csv.gz", "aic_gemm.yaml"),
}
"""By name: the file below --data, and the mapping that imports it."""


@dataclass(frozen=True)
class Trained:
    """One program on one table with one seed."""

    who: str
    inputs: str
    error: float | None
    costs: Mapping[str, Any]
    note: str


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    rows, about = run(options)
    write_tables(options.out, "automl_peers", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--environments", type=Path, default=None, help="default: OUT/environments")
    parser.add_argument("--tables", default=",".join(TABLES), help="tables, separated by commas")
    parser.add_argument("--peers", default="autogluon,flaml", help=f"of {', '.join(PEERS)}, separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one core, for each")
    parser.add_argument("--core", type=int, default=None, help="which core; by default the last one there is")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    peers = _named("peer", options.peers, PEERS)
    rows: list[Row] = []
    for table in _named("table", options.tables, TABLES):
        trained = [each for seed in range(options.seeds) for each in everybody(table, peers, seed, options)]
        rows += [_row(table, list(own)) for _, own in itertools.groupby(sorted(trained, key=_who), key=_who)]
    about = {
        "errors": "mean of |predicted - measured| / measured over test layers, per cent; mean over the seeds, and each",
        "costs": "medians on one core, by each one's own interface, no row asked twice; means over the seeds",
        "seconds each": options.seconds,
        "seeds": options.seeds,
        "lowest mean error": ", ".join(f"{table}: {who}" for table, who in winners(rows).items()),
    }
    return rows, about


def _named(what: str, names: str, allowed: Mapping[str, object]) -> list[str]:
    for name in (chosen := [name for name in names.split(",") if name]):
        if name not in allowed:
            raise UsageError(unknown(what, name, allowed))
    return chosen


def everybody(table: str, peers: Sequence[str], seed: int, options: argparse.Namespace) -> list[Trained]:
    """medn, and every peer with both sorts of inputs, on one table split by one seed."""
    folder = (options.out / "automl_peers" / table / str(seed)).resolve()
    measured = lay_out(table, seed, folder, options)
    results = [trained(OWN, RAW, folder, measured, seed, options)]
    for peer, inputs in itertools.product(peers, (RAW, PREPARED)):
        results.append(trained(PEERS[peer], inputs, folder, measured, seed, options))
    return results


def lay_out(table: str, seed: int, folder: Path, options: argparse.Namespace) -> Array:
    """Import the table, write its rows for the peers, and tell the latencies of the test rows."""
    file, mapping = TABLES[table]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RUN).is_dir():
        try:
            verb("import", str(options.data / file), "--map", str(IMPORTS / mapping), "--run", str(folder / RUN))
        except RuntimeError as error:
            raise UsageError(f"{table}: {error}") from None
    source = read_source(folder / RUN)
    (kind,) = source.rows
    prepared = kind_table(source, kind).table
    parts = Split().parts(prepared, seed)
    learned = parts.learned
    raw = kind_table(source, kind, choice=InputChoice(("raw",))).table
    for name, made in ((RAW, raw), (PREPARED, prepared)):
        categories = {category: np.array(names) for category, names in made.schema.categories.items()}
        inputs, logs = made.inputs[learned], np.log(made.target[learned])
        names = list(made.schema.names)
        Rows(names, categories, inputs, logs, made.groups[learned], made.inputs[parts.test]).write(
            rows_file(folder, name)
        )
    return prepared.target[parts.test]


def rows_file(folder: Path, inputs: str) -> Path:
    return folder / ("raw.npz" if inputs == RAW else "prepared.npz")


def trained(
    module: str, inputs: str, folder: Path, measured_s: Array, seed: int, options: argparse.Namespace
) -> Trained:
    """One program trained, or as it was kept; what goes wrong is its note."""
    peer = importlib.import_module(module)
    own = folder / f"{module.rpartition('.')[2]}-{rows_file(folder, inputs).stem}"
    request = {"seconds": options.seconds, "requirements": list(peer.REQUIREMENTS)}
    try:
        if not _is_kept(own, request):
            environments = (options.environments or options.out / "environments").resolve()
            python = interpreter(module.rpartition(".")[2], peer.REQUIREMENTS, environments)
            _train(python, module, rows_file(folder, inputs), own, seed, options)
            (own / "asked.json").write_text(json.dumps(request))
    except PeerFailed as reason:
        return Trained(peer.TITLE, inputs, None, {}, str(reason))
    costs: Row = json.loads((own / "result.json").read_text())
    error = score(np.exp(np.load(own / "predicted.npy")), measured_s).mape
    message = f"{folder.parent.name}, seed {seed}: {peer.TITLE}, {inputs}: {100 * error:.2f} %"
    print(f"{message}, {costs['us, 1 row']:.0f} us, {costs['fit CPU s']:.0f} CPU s", file=sys.stderr, flush=True)
    return Trained(peer.TITLE, inputs, error, costs, costs["note"])


def _is_kept(folder: Path, request: Row) -> bool:
    path = folder / "asked.json"
    return path.is_file() and json.loads(path.read_text()) == request


def _train(python: Path, module: str, rows: Path, folder: Path, seed: int, options: argparse.Namespace) -> None:
    """One process for one program, which ends in time even where the program does not keep to its limit."""
    folder.mkdir(parents=True, exist_ok=True)
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
    command = [str(python), "-m", "experiments.peers.child", module, str(rows), str(folder)]
    command += ["--seconds", str(options.seconds), "--seed", str(seed), "--core", str(core)]
    most = 10 * options.seconds + 600
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=most
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"was not done after {most:.0f} s") from None
    if done.returncode:
        raise PeerFailed(f"failed: {last_line(done.stderr)}")


def _who(trained: Trained) -> tuple[bool, str, bool]:
    """medn first, then peer by peer, raw columns first."""
    return trained.who != "medn", trained.who, trained.inputs != RAW


def _row(table: str, seeds: Sequence[Trained]) -> Row:
    errors = [100 * each.error for each in seeds if each.error is not None]
    costs = [each.costs for each in seeds if each.costs]
    return {
        "table": table,
        "who": seeds[0].who,
        "inputs": seeds[0].inputs,
        "MAPE %": statistics.fmean(errors) if errors else None,
        "by seed": ", ".join(f"{error:.2f}" for error in errors),
        **{name: statistics.fmean(cost[name] for cost in costs) if costs else None for name in COSTS},
        "note": seeds[0].note,
    }


def winners(rows: Sequence[Row]) -> dict[str, str]:
    """By table, who has the lowest mean error."""
    winner_of: dict[str, str] = {}
    for table, own in itertools.groupby(rows, key=lambda row: str(row["table"])):
        whole = [row for row in own if row["MAPE %"] is not None]
        if whole:
            best = min(whole, key=lambda row: float(row["MAPE %"]))
            winner_of[table] = f"{best['who']} ({best['inputs']})"
    return winner_of


if __name__ == "__main__":
    end_with(main)
