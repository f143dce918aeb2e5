"""NeuSight's unseen GPUs with a few operations measured on each, by class of operations as its authors report.

    python -m experiments.cross_device.neusight_points --data DATA --out results --only "elementwise,softmax,layer norm"

As `experiments.cross_device.neusight`, with up to `--points` operations of each class measured on the new GPU: from the
authors' test part, which has A100-80GB and L4, and from models that are not asked. The language models are split in
two; what one half asks is learned from to tell the other. No point has the sizes of an operation that is asked. It is
what `medn adapt --refit-all` makes of them, each family fitted once; where fewer than ten are left, what the data sheet
alone says. Writes neusight_points.{md,json}.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.cells import NETWORK_S
from experiments.cross_device.learning import learn_leaning
from experiments.cross_device.neusight import (
    CLASSES,
    PUBLISHED,
    OperationClass,
    asked,
    judged_sums,
    learned,
    model_operations,
    told,
    unseen_sheets,
)
from experiments.cross_device.tables import MAPPINGS, Row
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.bundle.bundle import read_bundle
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.config import parse_yaml
from medn.core.data_sheet import Sheet
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping
from medn.predictor.predictor import Predictor, load
from medn.runs.folder import RunFolder
from medn.selection.budget import Budget
from medn.sources.learned_together import learn_together, measured_on, save_network
from medn.transfer.adapt_run import adapting_families
from medn.transfer.adapt_sweep import FEWEST_POINTS, Wanted, known_and_pool
from medn.transfer.zero_shot import zero_shot

NAME = "neusight_points"
PARTS = 2
"""Of the models: each is told by what the others ask."""

Sizes = tuple[tuple[str, Any], ...]
"""An operation as a layer, by its columns."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", default="", help="classes, by commas")
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    wanted = [each for each in CLASSES if not options.only or each.name in options.only.split(",")]
    rows = [row for each in wanted for row in _judged(each, options)]
    about = {
        "errors": "mean of |predicted - measured| / measured of sums over a class in a model, in per cent",
        "points": "measured on the new GPU, the most of both halves",
        "covered": "single operations inside their interval",
        "published": "what the authors report for the class on unseen GPUs before anything is measured on them",
    }
    write_tables(options.out, NAME, rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n\n")
    return 0


def _judged(each: OperationClass, options: argparse.Namespace) -> list[Row]:
    operations = model_operations(each, options.data)
    found = []
    for device, sheet in unseen_sheets(options.data).items():
        parts = [_on_part(each, device, sheet, operations[device], part, options) for part in range(PARTS)]
        counts = [row.pop("models") for row in parts]
        points = max(row.pop("points") for row in parts)
        mean = {name: float(np.average([row[name] for row in parts], weights=counts)) for name in parts[0]}
        found.append({"class": each.name, "device": device, "points": str(points), **mean, "published": ""})
        print(told(found[-1]), file=sys.stderr, flush=True)
    names = [name for name, value in found[0].items() if not isinstance(value, str)]
    whole = {name: float(np.mean([row[name] for row in found])) for name in names}
    last = {"class": each.name, "device": "mean", "points": "", **whole, "published": PUBLISHED[each.name]}
    return [*map(told, found), told(last)]


def _on_part(
    each: OperationClass, device: str, sheet: Sheet, operations: list[Row], part: int, options: argparse.Namespace
) -> Row:
    models = sorted({own["model"] for own in operations})
    those = models[part::PARTS]
    queried = [own for own in operations if own["model"] in those]
    others = [own for own in operations if own["model"] not in those]
    measured = {**_measured_alone(each, device, options.data), **_by_sizes(each, others)}
    points = drawn_points(each, measured, queried, options.points, options.seed)
    predictor = _adapted(each, device, sheet, points, part, options)
    (kind,) = predictor.kinds
    row = judged_sums(each, queried, predictor.predict(asked(each, queried), kind))
    return {**row, "models": len({(own["model"], own["mode"], own["batch"]) for own in queried}), "points": len(points)}


def _adapted(
    each: OperationClass,
    device: str,
    sheet: Sheet,
    points: Mapping[Sizes, float],
    part: int,
    options: argparse.Namespace,
) -> Predictor:
    """What `medn adapt` makes of points; of none, what follows from the data sheet."""
    known = learned(each, options.data, options.out)
    if not points:
        devices, pool = known_and_pool([known], Wanted(device))
        return Predictor(zero_shot(devices, device, sheet, pool).bundle, device)
    run = options.out / "cross_device" / "neusight-points" / f"{each.name} {device} {part}".replace(" ", "-")
    shutil.rmtree(run, ignore_errors=True)
    _write_run(run, each, device, sheet, points)
    learn_leaning(run, known / f"{known.name}.medn", _network(known), adapting_families(has_rows=True), options.seed)
    return load(bundle_run(run, select_run(run, Budget(), refit_all=True).chosen))


def drawn_points(
    each: OperationClass, measured: Mapping[Sizes, float], queried: Sequence[Row], count: int, seed: int
) -> dict[Sizes, float]:
    """So many of what was measured, at random, none with the sizes of an operation that is asked; none at all where
    `medn adapt` would refuse so few."""
    free = sorted(measured.keys() - _by_sizes(each, queried).keys())
    if len(free) < FEWEST_POINTS:
        return {}
    drawn = np.random.default_rng(seed).permutation(len(free))[:count]
    return {free[place]: measured[free[place]] for place in drawn}


def _by_sizes(each: OperationClass, operations: Sequence[Row]) -> dict[Sizes, float]:
    """By its sizes, the mean time of an operation of models."""
    if not operations:
        return {}
    columns = asked(each, operations)
    sizes = [tuple(zip(columns, own, strict=True)) for own in zip(*columns.values(), strict=True)]
    return _mean_by(sizes, [own["latency_ms"] for own in operations])


def _mean_by(sizes: Sequence[Sizes], latencies: Sequence[float]) -> dict[Sizes, float]:
    found: dict[Sizes, list[float]] = {}
    for own, latency in zip(sizes, latencies, strict=True):
        found.setdefault(own, []).append(latency)
    return {own: float(np.mean(all_of_it)) for own, all_of_it in found.items()}


def _measured_alone(each: OperationClass, device: str, data: Path) -> dict[Sizes, float]:
    """The same of what the authors measured outside of models, where they did."""
    columns = {"bmm": ("b", "m", "n", "k"), "linear": ("b", "m", "n", "k")}.get(each.name, ("b", "h"))
    rows = [row for row in _operations_alone(data) if row["device"] == device and _name(row["op"]) in each.names]
    sizes = []
    for row in rows:
        numbers = [int(row[name]) for name in columns]
        if each.name == "linear":
            numbers = [numbers[0] * numbers[1], *numbers[2:]]
        sizes.append(tuple(each.query(_name(row["op"]), numbers).items()))
    return _mean_by(sizes, [row["latency_ms"] for row in rows])


def _name(operation: str) -> str:
    """What an operation of the table of operations is called in models."""
    return {"bmm": "BMM", "linear": "Linear"}.get(operation, f"VEC{operation}")


@cache
def _operations_alone(data: Path) -> list[Row]:
    from pyarrow import csv as arrow_csv

    rows = arrow_csv.read_csv(data / "neusight_ops.csv.gz").to_pylist()
    unseen = unseen_sheets(data)
    return [row for row in rows if row["split"] == "test" and row["device"] in unseen]


def _write_run(run: Path, each: OperationClass, device: str, sheet: Sheet, measured: Mapping[Sizes, float]) -> None:
    run.mkdir(parents=True)
    names = [name for name, _ in next(iter(measured))]
    with (run / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "latency_ms"])
        writer.writerows([*(value for _, value in sizes), latency] for sizes, latency in measured.items())
    written = parse_yaml((MAPPINGS / f"{each.mappings[0]}.yaml").read_text(), each.name)
    assert isinstance(written, dict), "a mapping is one"
    extra = {name: name for name in written.get("extra", {})}
    mapping = {
        "kind": written["kind"],
        "device": device,
        "latency_s": {"column": "latency_ms", "scale": 0.001},
        "columns": {name: name for name in names if name not in extra},
        "extra": extra,
        "sheets": {device: dict(sheet)},
    }
    import_table(run / "rows.csv", ImportMapping.model_validate(mapping), RunFolder(run))


def _network(known: Path) -> Path:
    """What has learned the rows of the known GPUs together, trained once."""
    path = known.with_suffix(".safetensors")
    if not path.is_file():
        (kind,) = {entry.kind for entry in read_bundle(known / f"{known.name}.medn").entries}
        shared = learn_together(measured_on([known], kind), NETWORK_S)
        assert shared, "there are rows enough"
        save_network(path, shared)
    return path


if __name__ == "__main__":
    end_with(main)
