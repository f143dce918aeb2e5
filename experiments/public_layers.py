"""How well medn predicts layers that others measured, by what a user runs: import, train, select.

    python -m experiments.public_layers --data DATA --out results

Every table is imported with its mapping from experiments/imports, trained within the time that stands beside it in
experiments/public/tables.py, on one core, and selected from; the runs stay in OUT/public_layers. What is chosen is
chosen on validation layers, and what is reported is the error on test layers. A run that is broken off goes on where it
was. Writes public_layers.{md,json}.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.public.tables import TABLES, PublicTable, find_table, run_of
from experiments.tables import markdown_table, write_tables
from medn.choosing.leaderboard import load_leaderboard
from medn.core.errors import MednError

FOLDER = "public_layers"
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    rows: list[Row] = []
    about: Row = {"errors": "per cent, on test layers; us: of the deployed form on one thread", "seed": options.seed}
    try:
        for name in options.sets.split(","):
            table = find_table(name)
            about[name], rows_of_table = table_rows(table, options)
            rows += rows_of_table
            # After every table, so that what is done can be read while the rest goes on.
            write_tables(options.out, FOLDER, rows, about)
    except MednError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--sets", default=",".join(TABLES), help="tables, separated by commas")
    parser.add_argument("--regressors", default="", help="regressors, separated by commas; all of them if left out")
    parser.add_argument("--time", default="", help="for each training, in place of the table's own")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def table_rows(table: PublicTable, options: argparse.Namespace) -> tuple[str, list[Row]]:
    """What must be known of a table, and a row for everything that was tried on it and published about it."""
    run = run_of(table, options.data, options.out / FOLDER)
    time = options.time or table.time
    pool = ["--pool"] if table.pool else []
    families = ["--regressors", options.regressors] if options.regressors else []
    cpu_s = medn("train", str(run), "--time", time, "--seed", str(options.seed), *families, *pool)
    medn("select", str(run), *pool)
    board = load_leaderboard(run)
    rows = [_published(table, other.who, 100 * other.mape, other.source, other.kind) for other in table.published]
    rows += [_row(table, row) for row in board.rows]
    return f"{table.about}; medn train --time {time}, {cpu_s:.0f} s of processor time now", rows


def medn(*arguments: str) -> float:
    """The command line itself, so that the table says what a user gets; the processor time that it took.

    On a busy machine that is much less than the time it was given.
    """
    began = _children_s()
    print("medn", *arguments, file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, "-m", "medn", *arguments], check=False)
    if done.returncode:
        raise MednError(f"medn {' '.join(arguments)} ended with exit code {done.returncode}")
    return _children_s() - began


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


COLUMNS = {
    "MAPE %": ("mape", 100),
    "median %": ("median", 100),
    "p90 %": ("p90", 100),
    "within 10 %": ("within_10", 100),
    "R2": ("r2", 1),
    "validation %": ("validation_mape", 100),
    "covered %": ("coverage", 100),
    "noise %": ("noise_mean", 100),
    "us, 1 row": ("us_1", 1),
    "us/row of 10,000": ("us_10000", 1),
    "kB": ("bytes", 1e-3),
    "fit s": ("fit_s", 1),
}
"""What is reported, the leaderboard's column behind it and its unit."""


def _row(table: PublicTable, facts: Mapping[str, Any]) -> Row:
    numbers = {name: None if facts[key] is None else facts[key] * unit for name, (key, unit) in COLUMNS.items()}
    about = {"table": table.name, "kind": facts["kind"], "who": facts["candidate"], "chosen": bool(facts["chosen"])}
    return {**about, **numbers, "note": facts["note"]}


def _published(table: PublicTable, who: str, mape: float, source: str, kind: str) -> Row:
    about = {"table": table.name, "kind": kind, "who": who, "chosen": False}
    return {**about, **dict.fromkeys(COLUMNS), "MAPE %": mape, "note": source}


if __name__ == "__main__":
    sys.exit(main())
