"""How many points adaptive measuring needs for the error of points drawn at random.

    python -m experiments.adaptive_points --data DATA --run runs/whole-models --out results
    python -m experiments.adaptive_points --data DATA --run runs/whole-models --forecasts --out results
    python -m experiments.adaptive_points --live experiments/configs/cpu-layers.yaml --points 600 --out results

The first chooses among points whose latencies are known: rows of public tables (--data) and of a sweep (--run), with
test layers set apart, over several seeds. OUT/adaptive_points keeps each curve, so that it goes on where it stopped.
The second checks the forecasts of learning curves on the same tables. The third measures on this machine: test points,
points drawn at random, and as many chosen ones. Writes adaptive_points.{md,json} with a picture,
adaptive_points_forecasts.{md,json}, or adaptive_points_live.{md,json}.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.adaptive_points.forecasts import LAYERS, checked, forecast_rows
from experiments.adaptive_points.live import compare_live
from experiments.adaptive_points.picture import draw
from experiments.adaptive_points.simulation import GAUSSIAN_PROCESS, curves, table_rows
from experiments.few_points.tables import PUBLIC, own_kinds, public_rows
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.errors import UsageError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of the public tables")
    parser.add_argument("--run", type=Path, help="a sweep, of which every kind is a table")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=list(PUBLIC), help="of the public ones")
    parser.add_argument("--family", default=GAUSSIAN_PROCESS, help="what learns from the points and is judged")
    parser.add_argument("--forecasts", action="store_true", help="check the forecasts of learning curves instead")
    parser.add_argument("--live", type=Path, metavar="CONFIG", help="measure what this sweep config describes")
    parser.add_argument("--points", type=int, default=600, help="with --live: points of each way")
    options = parser.parse_args()
    if options.live:
        about, rows = compare_live(options.live, options.out / "adaptive_points_live", options.points)
        write_tables(options.out, "adaptive_points_live", rows, about)
        print(markdown_table(rows))
        return 0
    if not options.data and not options.run:
        raise UsageError("say what to choose from: --data, --run or both; or measure with --live")
    kept = options.out / "adaptive_points"
    drawn = [public_rows(name, options.data, kept) for name in options.tables] if options.data else []
    drawn += own_kinds(options.run) if options.run else []
    if options.forecasts:
        checks = forecast_rows(checked(drawn, range(options.seeds), kept))
        write_tables(options.out, "adaptive_points_forecasts", checks, {"seeds": options.seeds, "layers": LAYERS})
        print(markdown_table(checks))
        return 0
    found = curves(drawn, range(options.seeds), options.family, kept)
    rows = table_rows(found)
    about = {
        "seeds": options.seeds,
        "learned by": options.family,
        "error": "mean on test layers, per cent",
    }
    name = "adaptive_points" if options.family == GAUSSIAN_PROCESS else f"adaptive_points_{options.family}"
    write_tables(options.out, name, rows, about)
    draw(found, options.out / name)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
