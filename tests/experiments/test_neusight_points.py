"""Which operations of a new GPU are learned from before those of a model are asked."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from experiments.cross_device.neusight import CLASSES, UNSEEN, OperationClass, model_operations
from experiments.cross_device.neusight_points import _by_sizes, _measured_alone, drawn_points

DEVICE = "NVIDIA L4"


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def softmax() -> OperationClass:
    return next(each for each in CLASSES if each.name == "softmax")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    one = {"device": DEVICE, "op": "softmax", "split": "test", "b": 8}
    alone = [{**one, "h": size, "latency_ms": latency} for size, latency in ((16, 1.0), (32, 2.0), (32, 4.0))]
    _write(tmp_path / "neusight_ops.csv.gz", alone)
    of_models = [("a", 32, 3.0), ("a", 64, 5.0), *(("b", 128 * number, 9.0) for number in range(1, 13))]
    same = {"device": DEVICE, "op": "VECsoftmax", "mode": "inf", "batch": 1}
    asked = [
        {**same, "model": model, "fw_ops": f"[('VECsoftmax', [8, {size}])]", "latency_ms": latency}
        for model, size, latency in of_models
    ]
    _write(tmp_path / "neusight_graph_ops.csv.gz", asked)
    sheet = {"singleflops": 1, "mem_bw": 1, "num_sm": 1, "l2cache": 1, "freq": 1}
    _write(tmp_path / "neusight_devices.csv", [{"device": name, **sheet} for name in UNSEEN])
    return tmp_path


def test_no_point_has_the_sizes_of_what_is_asked(softmax: OperationClass, data: Path) -> None:
    operations = model_operations(softmax, data)[DEVICE]
    asked = [each for each in operations if each["model"] == "a"]
    others = [each for each in operations if each["model"] == "b"]
    measured = {**_measured_alone(softmax, DEVICE, data), **_by_sizes(softmax, others)}
    assert sorted(set(measured.values())) == [1.0, 3.0, 9.0]  # what was measured twice counts in the mean
    points = drawn_points(softmax, measured, asked, 30, seed=0)
    assert sorted(dict(sizes)["features"] for sizes in points) == [16, *(128 * number for number in range(1, 13))]
    assert len(drawn_points(softmax, measured, asked, 11, seed=0)) == 11
    assert drawn_points(softmax, measured, operations, 30, seed=0) == {}
