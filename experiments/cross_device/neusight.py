"""NeuSight's unseen GPUs before anything is measured on them, by class of operations as its authors report.

    python -m experiments.cross_device.neusight --data DATA --out results

Operations of random sizes on five GPUs (the authors' training part) are learned device by device, and `medn adapt
--points 0` makes of them and of a data sheet a bundle for each GPU that the authors left out: A100-80GB, L4 and H100.
Asked are the operations of the language models that the authors ran there, forward. As they do, errors are told of
sums: all operations of one class in one model and batch size, each different operation once. What NeuSight itself
predicted of the same operations stands beside. Writes neusight_zero_shot.{md,json}.
"""

from __future__ import annotations

import argparse
import ast
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.learning import learn_all
from experiments.cross_device.tables import MAPPINGS, Row, write_thinned
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.atomic import atomic_path
from medn.core.config import parse_yaml
from medn.core.data_sheet import Sheet
from medn.estimator.prediction import Prediction
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.selection.budget import Budget
from medn.transfer.adapt_sweep import Wanted, known_and_pool
from medn.transfer.zero_shot import zero_shot

NAME = "neusight_zero_shot"
ROWS = 2_000
"""Of each device and class, to learn from."""

FAMILY = "lightgbm_on_roofline"
SETTINGS = {FAMILY: {"learning_rate": 0.1, "num_leaves": 31, "most_trees": 300}}
UNSEEN = ("NVIDIA A100 80GB PCIe", "NVIDIA L4", "NVIDIA H100 80GB HBM3")
PUBLISHED = {"bmm": 0.138, "linear": 0.139, "elementwise": 0.193, "softmax": 0.139, "layer norm": 0.567}


@dataclass(frozen=True)
class OperationClass:
    """One class as the authors tell them apart."""

    name: str
    mappings: tuple[str, ...]
    names: tuple[str, ...]
    """What its operations are called in models, where they are."""
    constant: Mapping[str, Any] = field(default_factory=dict)

    def query(self, operation: str, sizes: Sequence[int]) -> Row:
        """An operation of a model as a layer."""
        if self.name == "bmm":
            return dict(zip(("batch_size", "rows", "inner", "columns"), sizes, strict=True))
        if self.name == "linear":
            return dict(zip(("batch_size", "rows", "in_features", "out_features"), (1, *sizes), strict=True))
        if self.name != "elementwise":
            return dict(zip(("batch_size", "features"), sizes, strict=True))
        function = operation.removeprefix("VEC")
        broadcast = "none" if function in ("add", "mul", "div", "pow") else "scalar"
        asked = dict(zip(("batch_size", "columns"), sizes, strict=True))
        return {**asked, "operation": "add", "broadcast": broadcast, "function": function}


ELEMENTWISE = ("add", "mul", "div", "pow", "addu", "mulu", "divu", "powu", "relu", "gelu", "tanh")
CLASSES = (
    OperationClass("bmm", ("neusight_matmul",), ("BMM",)),
    OperationClass("linear", ("neusight_linear",), ("Linear",)),
    OperationClass(
        "elementwise", ("neusight_binary", "neusight_unary"), tuple(f"VEC{function}" for function in ELEMENTWISE)
    ),
    OperationClass("softmax", ("neusight_softmax",), ("VECsoftmax",)),
    OperationClass("layer norm", ("neusight_layer_norm",), ("VECln",)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", default="", help="classes, by commas")
    options = parser.parse_args(arguments)
    wanted = [each for each in CLASSES if not options.only or each.name in options.only.split(",")]
    rows = [row for each in wanted for row in _judged(each, options.data, options.out)]
    about = {
        "errors": "mean of |predicted - measured| / measured of sums over a class in a model, in per cent",
        "covered": "single operations inside their interval",
        "published": "what the authors report for the class on unseen GPUs, backward passes among it",
    }
    write_tables(options.out, NAME, rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n\n")
    return 0


def _judged(each: OperationClass, data: Path, out: Path) -> list[Row]:
    run = learned(each, data, out)
    asked_of = model_operations(each, data)
    found = [_on_device(each, run, device, sheet, asked_of[device]) for device, sheet in unseen_sheets(data).items()]
    mean = {name: float(np.mean([row[name] for row in found])) for name in found[0] if name not in ("class", "device")}
    return [
        *(told({**row, "published": ""}) for row in found),
        told({"class": each.name, "device": "mean", **mean, "published": PUBLISHED[each.name]}),
    ]


def told(row: Row) -> Row:
    return {name: value if isinstance(value, str) else round(100 * value, 1) for name, value in row.items()}


def _on_device(each: OperationClass, run: Path, device: str, sheet: Sheet, operations: list[Row]) -> Row:
    known, pool = known_and_pool([run], Wanted(device))
    found = zero_shot(known, device, sheet, pool)
    ((kind, foreseen),) = found.kinds.items()
    row = judged_sums(each, operations, Predictor(found.bundle, device).predict(asked(each, operations), kind))
    return {"class": each.name, "device": device, **row, "left out": float(np.mean(list(foreseen.left_out.values())))}


def asked(each: OperationClass, operations: Sequence[Row]) -> dict[str, list[Any]]:
    """The columns that a predictor is asked with."""
    queries = [each.query(own["op"], ast.literal_eval(own["fw_ops"])[0][1]) for own in operations]
    return {name: [query[name] for query in queries] for name in queries[0]}


def judged_sums(each: OperationClass, operations: Sequence[Row], answer: Prediction) -> Row:
    """Errors of what was predicted for operations of models, and of what NeuSight did."""
    measured = np.array([1e-3 * own["latency_ms"] for own in operations])
    theirs = np.array([1e-3 * own["pred_neusight_ms"] for own in operations])
    models = np.array([f"{own['model']} {own['mode']} {own['batch']}" for own in operations])
    return {
        "class sums": _sum_error(answer.latency_s, measured, models),
        "NeuSight": _sum_error(theirs, measured, models),
        "operations": float(np.abs(answer.latency_s / measured - 1).mean()),
        "NeuSight's": float(np.abs(theirs / measured - 1).mean()),
        "covered": float(((answer.low_s <= measured) & (measured <= answer.high_s)).mean()),
    }


def _sum_error(predicted: Any, measured: Any, models: Any) -> float:
    sums = [(predicted[models == name].sum(), measured[models == name].sum()) for name in np.unique(models)]
    return float(np.mean([abs(own / real - 1) for own, real in sums]))


def unseen_sheets(data: Path) -> dict[str, Sheet]:
    with (data / "neusight_devices.csv").open() as file:
        rows = {row["device"]: row for row in csv.DictReader(file)}
    columns = {
        **{"peak_gflops": "singleflops", "bandwidth_gb_s": "mem_bw", "multiprocessors": "num_sm"},
        **{"cache_mb": "l2cache", "clock_mhz": "freq"},
    }
    return {device: {name: float(rows[device][own]) for name, own in columns.items()} for device in UNSEEN}


def model_operations(each: OperationClass, data: Path) -> dict[str, list[Row]]:
    """By device, what models ask of a class, forward."""
    from pyarrow import csv as arrow_csv

    rows = arrow_csv.read_csv(data / "neusight_graph_ops.csv.gz").to_pylist()
    wanted = [row for row in rows if row["op"] in each.names]
    return {device: [row for row in wanted if row["device"] == device] for device in UNSEEN}


def learned(each: OperationClass, data: Path, out: Path) -> Path:
    """The run of the GPUs that were learned from, with its bundle."""
    run = out / "cross_device" / f"neusight-{each.name.replace(' ', '-')}"
    if not run.is_dir():
        with atomic_path(run) as beside:
            beside.mkdir(parents=True)
            for name in each.mappings:
                mapping = parse_yaml((MAPPINGS / f"{name}.yaml").read_text(), name)
                assert isinstance(mapping, dict), "a mapping is one"
                table = beside / f"{name}.csv"
                wanted = partial(_is_wanted, where=mapping["where"])
                write_thinned(data / "neusight_ops.csv.gz", table, wanted, ROWS // len(each.mappings))
                kept = {key: value for key, value in mapping.items() if key not in ("where", "test")}
                import_table(table, ImportMapping.model_validate(kept), RunFolder(beside), mix_environments=True)
    if not (run / f"{run.name}.medn").is_file():
        learn_all(run, [FAMILY], settings=SETTINGS)
        bundle_run(run, select_run(run, Budget()).chosen)
    return run


def _is_wanted(row: Row, where: Mapping[str, Any]) -> bool:
    """Whether a row is of the training part, and what a mapping asks for."""
    operations = where["op"] if isinstance(where["op"], list) else [where["op"]]
    return row["split"] == "train" and row["op"] in operations and row["device"] in where["device"]


if __name__ == "__main__":
    end_with(main)
