"""PyTorch operations on ten GPUs (sitar-lab/NeuSight, MIT): learned from random shapes, tested on those of real models.

Only GPUs that are in the authors' training rows are tested. What was read off the measured kernel (tiles, grid,
blocks) is not known beforehand and is no input.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.public.hardware import Device, device_features, product_features
from experiments.public.task import Columns, Published, Task, build_table, chosen, joined, read_columns
from medn.core.splits import Parts
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds

SOURCE = "NeuSight paper, GPUs seen in training"
ELEMENTWISE = ("add", "addu", "mul", "mulu", "div", "divu", "pow", "powu", "relu", "gelu", "tanh")
CLASSES = {
    "bmm": (("bmm",), 0.260),
    "linear": (("linear",), 0.200),
    "elementwise": (ELEMENTWISE, 0.140),
    "softmax": (("softmax",), 0.193),
    "layer_norm": (("ln",), 0.201),
}
"""Operations of each class and the published error."""
CHOOSING = 0.02
"""The share of the training rows, those with the most work, that is left for choosing."""


def load(folder: Path, seed: int) -> list[Task]:
    """The split is the authors', so the seed changes nothing here."""
    columns = read_columns(folder / "neusight_ops.csv.gz")
    devices = _devices(folder / "neusight_devices.csv")
    return [_task(name, columns, devices) for name in CLASSES]


def _devices(path: Path) -> dict[str, Device]:
    sheet = read_columns(path)
    # AMD's sheets have one peak for matrix and one for vector units.
    peaks = np.where(np.isnan(sheet["singleflops"]), sheet["singleflopsmm"], sheet["singleflops"])
    rows = zip(sheet["device"], sheet["num_sm"], peaks, sheet["mem_bw"], sheet["l2cache"], strict=True)
    return {name: Device(*map(float, numbers)) for name, *numbers in rows}


def _task(name: str, columns: Columns, devices: dict[str, Device]) -> Task:
    operations, published = CLASSES[name]
    wanted = np.isin(columns["op"], operations)
    if name == "linear":
        wanted &= columns["device"] != "Tesla P4"  # a throttled run
    learned = np.unique(columns["device"][wanted & (columns["split"] == "train")])
    tested = np.unique(columns["device"][wanted & (columns["split"] == "test")])
    seen = [device for device in learned if device in tested]
    rows = chosen(columns, wanted & np.isin(columns["device"], seen))
    numbers = _products(name, rows) if name in ("bmm", "linear") else _rows(name, rows)
    moved = numbers["memory_bytes"]
    numbers |= device_features(devices, rows["device"], numbers["flops"], moved)
    if name == "bmm":
        matrix = (numbers["pairs"], numbers["rows"], numbers["inner"], numbers["columns"])
        numbers |= product_features(*matrix, numbers["multiprocessors"])
    if name == "linear":
        matrix = (1.0, numbers["matrix_rows"], numbers["in_features"], numbers["out_features"])
        numbers |= product_features(*matrix, numbers["multiprocessors"])
    groups = joined(rows["op"], *(np.nan_to_num(rows[size]) for size in "bmnkh"))
    words = {"device": rows["device"]} | ({"operation": rows["op"]} if len(operations) > 1 else {})
    table = build_table(numbers, words, rows["latency_ms"], groups)
    parts = _parts(rows["split"], numbers["flops"])
    about = f"random shapes -> shapes of real models, GPUs {', '.join(seen)}"
    others = (Published("NeuSight", published, SOURCE),)
    return Task(f"neusight {name}", about, table, parts, published / 2, others, peak_us="roofline_us")


def _products(name: str, rows: Columns) -> dict[str, Any]:
    if name == "bmm":
        values = SimpleNamespace(matrices=1.0, rows=rows["m"], inner=rows["n"], columns=rows["k"])
        batch_size = rows["b"].astype(np.float64)
    else:
        values = SimpleNamespace(in_features=rows["n"], out_features=rows["k"], rows=1.0, bias=True)
        batch_size = rows["b"] * rows["m"]
    kind = layer_kinds["matmul" if name == "bmm" else "linear"]
    return vars(values) | analytic_features(kind, values, batch_size, 4.0)


def _rows(name: str, rows: Columns) -> dict[str, Any]:
    batch_size = rows["b"].astype(np.float64)
    if name == "elementwise":
        # A second tensor is read by the operations that are not unary; the names of the unary ones end in u.
        binary = np.isin(rows["op"], ("add", "mul", "div", "pow"))
        values = SimpleNamespace(
            operation="add", rows=1.0, columns=rows["h"], broadcast=np.where(binary, "none", "scalar")
        )
    else:
        values = SimpleNamespace(features=rows["h"], rows=1.0)
    features = analytic_features(layer_kinds[name], values, batch_size, 4.0)
    return {"batch_size": batch_size, "row_size": rows["h"]} | features


def _parts(split: NDArray[Any], work: NDArray[np.float64]) -> Parts:
    """Real models lie beyond the random shapes, so choosing is done beyond what is learned from as well."""
    train, test = np.flatnonzero(split == "train"), np.flatnonzero(split == "test")
    is_large = work[train] > np.quantile(work[train], 1 - CHOOSING)
    return Parts(train[~is_large], train[is_large], np.empty(0, dtype=int), test)
