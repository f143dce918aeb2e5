"""What is learned from few layers, next to every family by itself, MEDN alone, and other programs in the same time.

    python -m experiments.few_points --data DATA --run runs/own --out results --peers autogluon,flaml

So many layers (40 to 2,560) are drawn from each of seven public tables and from every kind of a sweep, with test layers
apart that stay the same for all sizes of a seed. Tables are brought in by `medn import`, and each cell (a table, a
size, a seed) is learned by `medn train --time S --jobs 1` and `medn select`. Every result is kept in OUT/few_points by
itself: a run that is broken off goes on where it was, and several processes may work on the same folder, each on cells
that no other has. Results that other code made are kept and counted; --again makes them anew. Writes
few_points.{md,json,png,svg}, few_points_families.{md,json} and few_points_cells.{md,json}.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from experiments.few_points.cells import ALONE, OWN, PEER_INPUTS, Cell, code_version, kept, work_on
from experiments.few_points.picture import draw
from experiments.few_points.summary import Result, cell_rows, family_rows, size_rows, whole
from experiments.few_points.tables import PUBLIC, Drawn, has_enough, own_kinds, public_rows
from experiments.peers.training import PEERS, Allowed, core_of
from experiments.script import end_with, named
from experiments.tables import markdown_table, write_tables
from medn.core.errors import NothingMeasured, UsageError

SIZES = (40, 80, 160, 320, 640, 1280, 2560)
NAME = "few_points"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    everybody = [OWN, *([ALONE] if options.alone else []), *_peers(options.peers)]
    folder = options.out / NAME
    environments = (options.environments or options.out / "environments").resolve()
    allowed = Allowed(options.seconds, core_of(options.core), environments)
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    cells = _cells(options, folder)
    for cell in cells if not options.tell else ():
        work_on(cell, everybody, folder, allowed, options.again, options.keep)
    results = [
        Result(cell, {who: found for who in (OWN, ALONE, *PEER_INPUTS) if (found := kept(cell, who, folder))})
        for cell in cells
    ]
    return tell(whole(results), options.out, options.seconds)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder that holds the public data sets")
    parser.add_argument("--run", type=Path, default=None, help="a sweep whose kinds are drawn from too")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", default="", help="of all tables those whose name holds one of these, by commas")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of layers to learn from, by commas")
    parser.add_argument("--seeds", default="0,1,2,3,4", help="which ones, by commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="of one core, for each")
    parser.add_argument("--alone", action="store_true", help="train MEDN alone too, with all of the time to itself")
    parser.add_argument("--peers", default="", help=f"of {', '.join(PEERS)}, by commas")
    parser.add_argument("--environments", type=Path, default=None, help="default: OUT/environments")
    parser.add_argument("--core", type=int, default=None, help="hold everything to this core")
    parser.add_argument("--again", action="store_true", help="make those cells anew that other code made")
    parser.add_argument("--keep", action="store_true", help="keep the runs with all their candidates")
    parser.add_argument("--tell", action="store_true", help="train nothing, only tell what there is")
    return parser.parse_args(arguments)


def _peers(names: str) -> list[str]:
    wanted = named("peer", names, PEERS)
    return [who for who, (peer, _) in PEER_INPUTS.items() if peer in wanted]


def _numbers(what: str, written: str) -> list[int]:
    if not all(each.isdigit() for each in written.split(",")):
        raise UsageError(f"--{what} must be whole numbers, separated by commas (got {written!r})")
    return [int(each) for each in written.split(",")]


def _cells(options: argparse.Namespace, folder: Path) -> list[Cell]:
    """Table by table, so that each is read once; sizes that a table has too few points for are left out."""
    sizes, seeds = _numbers("sizes", options.sizes), _numbers("seeds", options.seeds)
    cells = [
        Cell(table, size, seed)
        for table in _tables(options, folder)
        for seed in seeds
        for size in sizes
        if has_enough(table, size, seed)
    ]
    if not cells:
        raise NothingMeasured("no table has so many points")
    return cells


def _tables(options: argparse.Namespace, folder: Path) -> list[Drawn]:
    wanted = [part for part in options.only.split(",") if part]

    def is_wanted(name: str) -> bool:
        return not wanted or any(part in name for part in wanted)

    found = [public_rows(name, options.data, folder) for name in PUBLIC if options.data and is_wanted(name)]
    found += [table for table in (own_kinds(options.run) if options.run else ()) if is_wanted(table.name)]
    if not found:
        raise UsageError(
            "nothing to draw from: give --data DATA, --run RUN or both, and an --only that one of them has"
        )
    return found


def tell(results: Sequence[Result], out: Path, seconds: float) -> int:
    if not results:
        raise NothingMeasured("no cell is done yet")
    groups = {
        title: own
        for title, is_public in (("public tables", True), ("own sweep", False))
        if (own := [each for each in results if each.cell.table.is_public == is_public])
    }
    others = sum(each.own["code"] != code_version() for each in results)
    about = {
        "errors": "geometric means over tables and seeds of the mean of |predicted - measured| / measured, per cent",
        "regret": "of what was chosen against the best single family picked on the test rows",
        "gain": "points of accuracy, mean over tables, 95 % interval from drawing seeds again",
        "covered": "test rows inside their 90 % interval; far: the fifth that is farthest from any learned row",
        "width": "high less low, of the prediction; the median over rows",
        "sizes": "a table with fewer layers gives all of them with more points each; one with fewer points is left out",
        "seconds each": seconds,
        "cells made by other code than there is now": others,
    }
    rows = [{"from": title, **row} for title, own in groups.items() for row in size_rows(own)]
    write_tables(out, NAME, rows, about)
    families = [{"from": title, **row} for title, own in groups.items() for row in family_rows(own)]
    write_tables(out, f"{NAME}_families", families, about)
    write_tables(out, f"{NAME}_cells", cell_rows(results), about)
    draw(groups, out / NAME)
    print(
        markdown_table(rows),
        markdown_table(families),
        *(f"{name}: {value}" for name, value in about.items()),
        sep="\n\n",
    )
    return 0


if __name__ == "__main__":
    end_with(main)
