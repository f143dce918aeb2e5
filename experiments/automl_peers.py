"""medn next to AutoGluon and FLAML: the same rows, split by layer, and as many seconds of one core for each.

    python -m experiments.automl_peers --data DATA --out results

Every table is imported as a user would (`medn import`). medn is what a user runs: `medn train --time 60 --jobs 1` and
`medn select`, then the bundle is asked; and so is the one that `medn select --max-us 10` makes of the same run. Peers
learn the same rows twice: from the raw columns of the table, and from the inputs that medn makes of them. Each peer is
installed into an environment of its own below --environments, and everybody is trained by a process of its own that is
held to one core. What was found is kept in OUT/automl_peers, so a run that is broken off goes on where it was. Writes
automl_peers.{md,json}.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.peers.medn_verbs import RUN, verb
from experiments.peers.training import PEERS, PREPARED, RAW, ROOT, Allowed, Trained, core_of, trained, write_rows
from experiments.script import end_with, named
from experiments.tables import markdown_table, write_tables
from medn.core.errors import UsageError
from medn.core.table import Array

OWN = ("experiments.peers.medn_verbs", "experiments.peers.medn_quick")
IMPORTS = ROOT / "experiments" / "imports"
COSTS = ("us, 1 row", "us, 1 row, bare", "ms, 10,000 rows", "MB", "fit s", "fit CPU s")
Row = dict[str, Any]

TABLES: Mapping[str, tuple[str, str]] = {
    "cde conv2d": ("cde_layers.csv.gz", "cde_conv2d.yaml"),
    "miopen conv2d": ("miopen_conv_fwd.csv.gz", "miopen_conv2d.yaml"),
    "neusight bmm": ("neusight_ops.csv.gz", "neusight_bmm.yaml"),
    "aic gemm": ("aic_gemm.csv.gz", "aic_gemm.yaml"),
}
"""By name: the file below --data, and the mapping that imports it."""


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
    peers = named("peer", options.peers, PEERS)
    rows: list[Row] = []
    for table in named("table", options.tables, TABLES):
        trained = [each for seed in range(options.seeds) for each in everybody(table, peers, seed, options)]
        rows += [_row(table, list(own)) for _, own in itertools.groupby(sorted(trained, key=_who), key=_who)]
    about = {
        "errors": "mean of |predicted - measured| / measured over test layers, per cent; mean over the seeds, and each",
        "costs": "median processor time on one core, by each one's own interface, no row asked twice; means over seeds",
        "seconds each": options.seconds,
        "seeds": options.seeds,
        "lowest mean error": ", ".join(f"{table}: {who}" for table, who in winners(rows).items()),
    }
    return rows, about


def everybody(table: str, peers: Sequence[str], seed: int, options: argparse.Namespace) -> list[Trained]:
    """medn, and every peer with both sorts of inputs, on one table split by one seed."""
    folder = (options.out / "automl_peers" / table / str(seed)).resolve()
    measured = lay_out(table, seed, folder, options)
    environments = (options.environments or options.out / "environments").resolve()
    allowed = Allowed(options.seconds, core_of(options.core), environments)
    asked = [*((own, RAW) for own in OWN), *((PEERS[peer], inputs) for peer in peers for inputs in (RAW, PREPARED))]
    return [trained(module, inputs, folder, measured, seed, allowed) for module, inputs in asked]


def lay_out(table: str, seed: int, folder: Path, options: argparse.Namespace) -> Array:
    """Import the table, write its rows for the peers, and tell the latencies of the test rows."""
    file, mapping = TABLES[table]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RUN).is_dir():
        try:
            verb("import", str(options.data / file), "--map", str(IMPORTS / mapping), "--run", str(folder / RUN))
        except RuntimeError as error:
            raise UsageError(f"{table}: {error}") from None
    return write_rows(folder / RUN, seed, folder)


def _who(trained: Trained) -> tuple[bool, str, bool]:
    """medn first, then peer by peer, raw columns first."""
    return not trained.who.startswith("medn"), trained.who, trained.inputs != RAW


def _row(table: str, seeds: Sequence[Trained]) -> Row:
    errors = [100 * each.error for each in seeds if each.error is not None]
    costs = [each.costs for each in seeds if each.costs]
    return {
        "table": table,
        "who": seeds[0].who,
        "inputs": seeds[0].inputs,
        "MAPE %": statistics.fmean(errors) if errors else None,
        "by seed": ", ".join(f"{error:.2f}" for error in errors),
        **{name: _mean([cost.get(name) for cost in costs]) for name in COSTS},
        "note": seeds[0].note,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


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
