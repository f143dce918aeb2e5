"""What choosing per kind brings over one regressor for everything, with its confidence interval.

    python -m experiments.selection_gain --run runs/laptop --public results/public_layers --out results

Reads the leaderboards that `medn select` wrote: of each run, and of all the runs that `python -m
experiments.public_layers` made, which count as one. Nothing is fitted here. Whatever is chosen is chosen on validation
layers; gains are on test layers, with intervals from drawing layers again. Writes selection_gain.{md,json}.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.tables import markdown_table, write_tables
from medn.choosing.leaderboard import JSON_FILE, Leaderboard, load_leaderboard
from medn.core.errors import MednError, NothingMeasured, UsageError

PAPER = "2.5 points of accuracy and 0.39 points of R2 over MEDN alone, as published for other layers and devices"
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        rows, about = run(options)
    except MednError as error:
        print(error, file=sys.stderr)
        return 2
    write_tables(options.out, "selection_gain", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", type=Path, action="append", default=[], help="a run folder; may be given several times"
    )
    parser.add_argument("--public", type=Path, default=None, help="the folder of runs of experiments.public_layers")
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    if not options.run and options.public is None:
        raise UsageError("nothing to compare: give --run RUN, or --public RUNS for those of the public tables")
    about: Row = {
        "gains": "of the chosen selection over each other one, in points, on test layers; 95 % intervals",
        "overall": "means over layer kinds or tables; accuracy is 100 % less the mean relative error",
        "published": PAPER,
    }
    rows: list[Row] = []
    for folder in options.run:
        board = load_leaderboard(folder)
        about[board.run] = f"{len({row['kind'] for row in board.rows})} layer kinds, budget {board.budget}"
        rows += [_row(board.run, each, each["gain"], each["r2_gain"]) for each in board.schemes]
    if options.public is not None:
        boards = [load_leaderboard(path.parent) for path in sorted(options.public.glob(f"*/{JSON_FILE}"))]
        if not boards:
            raise NothingMeasured(f"no leaderboards in {options.public}: python -m experiments.public_layers")
        rows += together(boards)
        about["public"] = f"{len(boards)} tables: {', '.join(board.run for board in boards)}"
    return rows, about


def together(boards: Sequence[Leaderboard]) -> list[Row]:
    """The ways to select that all tables have, each the mean over the tables, which were measured apart."""
    schemes = [{scheme["name"]: scheme for scheme in board.schemes} for board in boards]
    rows = []
    for name in (name for name in schemes[-1] if all(name in own for own in schemes)):
        own = [each[name] for each in schemes]
        facts: Row = {"name": name, "bytes": sum(each["bytes"] for each in own)}
        facts |= {key: float(np.mean([each[key] for each in own])) for key in ("accuracy", "r2", "us_1")}
        rows.append(_row("public", facts, *(_mean([each[key] for each in own]) for key in ("gain", "r2_gain"))))
    return rows


def _mean(gains: Sequence[Mapping[str, float]]) -> Row:
    """The mean of gains that were measured apart: its interval is theirs added in squares, over their number."""
    value = float(np.mean([gain["value"] for gain in gains]))
    below, above = (
        math.sqrt(sum((gain[end] - gain["value"]) ** 2 for gain in gains)) / len(gains) for end in ("low", "high")
    )
    return {"value": value, "low": value - below, "high": value + above}


def _row(measured: str, scheme: Mapping[str, Any], gain: Mapping[str, float], r2_gain: Mapping[str, float]) -> Row:
    return {
        "measurements": measured,
        "selection": scheme["name"],
        "accuracy %": 100 * scheme["accuracy"],
        "R2": scheme["r2"],
        "accuracy gain": _points(gain),
        "R2 gain": _points(r2_gain),
        "us, 1 row": scheme["us_1"],
        "kB": scheme["bytes"] / 1e3,
    }


def _points(gain: Mapping[str, float]) -> str:
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


if __name__ == "__main__":
    sys.exit(main())
