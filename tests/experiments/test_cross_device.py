"""Devices of a small table left out in turn."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cross_device import __main__ as script
from experiments.cross_device import cells
from experiments.cross_device.tables import DeviceTable
from experiments.cross_device.targets import Cell, table_of, write_target
from medn.core.errors import UsageError
from medn.runs.tables import read_source
from medn.sources.learned_together import read_network

PEAKS = {"K40": 4e12, "P100": 9e12, "V100": 14e12}


def _write_rows(path: Path) -> None:
    random = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        columns = ["device", "op", "batch", "in_c", "out_c", "in_hw", "kernel", "stride", "padding", "bias"]
        writer = csv.DictWriter(file, [*columns, "uneven", "pass", "activation", "optimizer", "latency_ms"])
        writer.writeheader()
        for device, peak in PEAKS.items():
            for _ in range(90):
                batch, size = 2 ** int(random.integers(0, 5)), int(random.integers(8, 64))
                channels = {"in_c": int(random.integers(8, 256)), "out_c": int(random.integers(8, 256))}
                flops = 2 * batch * channels["in_c"] * channels["out_c"] * size**2
                seconds = (2e-5 + flops / peak) * random.lognormal(0, 0.05)
                fixed = {"op": "conv2d", "kernel": 1, "stride": 1, "padding": 0, "bias": 1, "uneven": False}
                words = {"pass": "forward", "activation": "relu", "optimizer": "none"}
                sizes = {"device": device, "batch": batch, "in_hw": size, **channels}
                writer.writerow({**sizes, **fixed, **words, "latency_ms": 1e3 * seconds})


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> cells.Setting:
    folder = tmp_path_factory.mktemp("cross")
    _write_rows(folder / "tiny.csv")
    return cells.Setting(folder, folder / "out", ("roofline", "source_stack", "best_source"))


@pytest.fixture(scope="module")
def table() -> DeviceTable:
    sheets = {
        name: {"peak_gflops": peak / 1e9, "bandwidth_gb_s": 500, "multiprocessors": 40} for name, peak in PEAKS.items()
    }
    return DeviceTable("tiny", "tiny.csv", "cde_conv2d_pooled.yaml", lambda row: True, sheets)


@pytest.fixture(scope="module")
def result(table: DeviceTable, setting: cells.Setting) -> dict[str, Any]:
    return cells.work_on(Cell(table, "V100", 15, 0), setting)


def test_a_cell_tells_every_candidate_and_the_choice(result: dict[str, Any]) -> None:
    assert set(result["families"]) == {"roofline", "source_stack", "best_source"}
    assert result["rows"] == {"learned": 15, "test": 30}
    assert 0 < result["error"] < 0.5
    assert result["alone"] == result["families"]["roofline"]


def test_a_cell_is_made_once(table: DeviceTable, setting: cells.Setting, result: dict[str, Any]) -> None:
    (kept,) = (setting.folder / "cells").glob("tiny-V100-15-*.json")
    kept.write_text(json.dumps({**result, "chosen": "as it was kept"}))
    assert cells.work_on(Cell(table, "V100", 15, 0), setting)["chosen"] == "as it was kept"
    kept.write_text(json.dumps(result))


def test_no_point_is_for_test_and_known_devices_are_others(
    table: DeviceTable, setting: cells.Setting, result: dict[str, Any], tmp_path: Path
) -> None:
    bundle = cells.without(cells.known_devices(table, setting), "V100", setting)
    write_target(Cell(table, "V100", 12, 1), cells.devices_run(table, setting), bundle, tmp_path / "run")
    source = read_source(tmp_path / "run")
    tested = [row for row in source.rows["conv2d"] if row["environment_id"] in source.test_environments]
    assert (len(tested), len(source.rows["conv2d"])) == (30, 42)
    assert source.devices == ["V100"]


def test_data_sheets_tell_something_before_anything_is_measured(
    table: DeviceTable, setting: cells.Setting, result: dict[str, Any]
) -> None:
    found = cells.work_on(Cell(table, "P100", 0, 0), setting)
    assert set(found["families"]) == {"zero_shot", "roofline", "peaks"}
    assert "P100" not in found["left_out"]
    assert found["error"] < 1.5


def test_tables_and_a_picture_are_written(
    table: DeviceTable,
    setting: cells.Setting,
    result: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script, "TABLES", {"tiny": table})
    arguments = ["--data", str(setting.data), "--out", str(setting.out), "--only", "tiny-V100"]
    assert script.main([*arguments, "--sizes", "15", "--seeds", "0"]) == 0
    assert "| tiny | V100 | 15 |" in capsys.readouterr().out
    assert {path.suffix for path in setting.out.glob("cross_device.*")} == {".md", ".json", ".png", ".svg"}


def test_what_known_devices_have_measured_is_learned_from_without_the_new_one(
    table: DeviceTable, setting: cells.Setting, result: dict[str, Any]
) -> None:
    cell = Cell(table, "K40", 15, 0)
    found = cells.work_on(cell, replace(setting, families=("roofline", "source_stack", "medn_across_devices")))
    assert "medn_across_devices" in found["families"]
    shared = read_network(cells.known_network(cell, setting))
    assert shared is not None
    assert set(shared.rows.names) == {"P100", "V100"}


def test_a_size_may_be_a_share_of_all_rows(table: DeviceTable, setting: cells.Setting, result: dict[str, Any]) -> None:
    found = table_of(cells.devices_run(table, setting), "V100")
    assert script._sizes("10,7%", found) == [10, 6]
    with pytest.raises(UsageError, match="whole numbers"):
        script._sizes("ten", found)
