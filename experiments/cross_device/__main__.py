"""How few measurements a new device needs, with devices of public tables left out in turn.

    python -m experiments.cross_device --data DATA --out results
    python -m experiments.cross_device --data DATA --only cde-V100,aic-L40S,miopen-gfx908 --sizes 10,100,1000
    python -m experiments.cross_device --data DATA --only cpu_conv2d,cpu_linear --sizes 50,160 --seeds 0

Every device of a table is learned by itself, once; each in turn is new then, and the others are what it leans on. Every
cell (a table, a new device, so many points, a seed) is what `medn adapt --run` makes of these points, each family
fitted once with the settings it starts from. Errors are told on rows of the new device that no point was chosen from.
Every cell is kept in OUT/cross_device by itself: a run that is broken off goes on where it was. Writes
cross_device.{md,json,png,svg} and cross_device_cells.{md,json}.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.cross_device.cells import Setting, devices_run, work_on
from experiments.cross_device.own_backends import OWN_TABLES
from experiments.cross_device.summary import cell_rows, draw, size_rows
from experiments.cross_device.tables import TABLES
from experiments.cross_device.targets import Cell, source_of, table_of
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.errors import NothingMeasured, UsageError
from medn.runs.tables import KindTable
from medn.transfer.points import WAYS

SIZES = ("0", "10", "30", "100", "300", "1000", "7%")
NAME = "cross_device"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    setting = Setting(options.data, options.out, tuple(name for name in options.families.split(",") if name))
    results = [work_on(cell, setting, options.again) for cell in _cells(options, setting)]
    about = {
        "errors": "mean of |predicted - measured| / measured on rows of the new device, in per cent, mean over seeds",
        "chosen": "what ships, chosen on the points alone, each left out in turn",
        "alone": "the best, chosen in the same way, of the families that learn from the points alone",
        "covered": "rows inside the interval that is promised; fewer than 9 layers cannot promise 90 %",
    }
    rows = size_rows(results)
    write_tables(options.out, NAME, rows, about)
    write_tables(options.out, f"{NAME}_cells", cell_rows(results), about)
    draw(results, options.out / NAME)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", default="", help="of all TABLE-DEVICE those that hold one of these, by commas")
    parser.add_argument("--sizes", default=",".join(SIZES), help="numbers of points, or shares of all, by commas")
    parser.add_argument("--seeds", default="0,1", help="which ones, by commas")
    parser.add_argument("--families", default="", help="those that take part; all that `medn adapt` trains")
    parser.add_argument("--by", default="medoids", choices=list(WAYS), help="how up to 30 points are chosen")
    parser.add_argument("--again", action="store_true", help="make cells anew that are there")
    return parser.parse_args(arguments)


def _cells(options: argparse.Namespace, setting: Setting) -> list[Cell]:
    wanted = [part for part in options.only.split(",") if part]
    tables = [
        table
        for name, table in {**TABLES, **OWN_TABLES}.items()
        if not wanted or any(part.startswith(f"{name}-") or part == name for part in wanted)
    ]
    cells = []
    for table in tables:
        devices = source_of(devices_run(table, setting)).devices
        chosen = [
            device for device in devices if not wanted or any(part in f"{table.name}-{device}" for part in wanted)
        ]
        cells += [
            Cell(table, device, size, seed, options.by)
            for device in chosen
            for seed in _numbers("seeds", options.seeds)
            for size in _sizes(options.sizes, table_of(devices_run(table, setting), device))
        ]
    if not cells:
        raise NothingMeasured(f"no device is meant by --only {options.only}")
    return cells


def _sizes(written: str, table: KindTable) -> list[int]:
    """Numbers of points; a share is one of all rows that the new device has."""
    shares = [each for each in written.split(",") if each.endswith("%")]
    numbers = [each for each in written.split(",") if each not in shares]
    found = [round(float(share.rstrip("%")) / 100 * len(table.table)) for share in shares]
    return [*(_numbers("sizes", ",".join(numbers)) if numbers else []), *found]


def _numbers(what: str, written: str) -> list[int]:
    if not all(each.isdigit() for each in written.split(",")):
        raise UsageError(f"--{what} must be whole numbers, separated by commas (got {written!r})")
    return [int(each) for each in written.split(",")]


if __name__ == "__main__":
    end_with(main)
