"""Latency tables for once-for-all, HALP and HAQ from a bundle, each checked against measurements.

    python -m experiments.integrations.lookup_tables --bundle runs/laptop/laptop.medn --out results

Writes once_for_all/SIZE_lookup_table.yaml (MobileNetV3 at one image size), halp/ (the residual network of
`prune_channels`) and haq/ (the same network). Of each table some entries are compared with
their layers, each measured alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import medn
from experiments.integrations.pipeline_split import best_s
from experiments.integrations.prune_channels import IMAGE, residual_network
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.values import Condition, Layer
from medn.devices.workload import make_workload
from medn.exporting.exporter import exporters
from medn.exporting.formats.halp import KEY, halp_grid, halp_table
from medn.exporting.formats.haq import QUANTISED, WIDEST, haq_table
from medn.exporting.formats.once_for_all import Block, mobilenet_v3_entries, once_for_all_table
from medn.integrations.torch_pruning import suggested_step
from medn.predictor.predictor import Predictor

PASSES = 10
CHECKED = Block(28, 40, 160, 40, kernel=5, shortcut=True, squeezes=True)
"""The entry of once-for-all's table that is measured, for images of 224 pixels."""


def alone_s(layers: Sequence[Layer]) -> float:
    """The sum over layers of each measured alone, which is what a lookup table holds."""

    def run(layer: Layer) -> Callable[[], object]:
        load = make_workload(layer, Condition())
        return lambda: load.module(*load.inputs)

    measured = best_s({layer: run(layer) for layer in layers}, PASSES)
    return sum(measured[layer] for layer in layers)


def once_for_all_row(predictor: Predictor, out: Path) -> dict[str, Any]:
    started = time.perf_counter()
    exporters["once-for-all"].write(predictor, out / "once_for_all" / "224_lookup_table.yaml")
    taken_s = time.perf_counter() - started
    entries = mobilenet_v3_entries(224)
    table = once_for_all_table(predictor, entries)
    measured_s = alone_s(entries[CHECKED.key])
    return row("once-for-all", len(table), taken_s, CHECKED.key, table[CHECKED.key]["mean"], measured_s)


def halp_row(predictor: Predictor, model: CapturedModel, out: Path) -> dict[str, Any]:
    started = time.perf_counter()
    step = suggested_step(model, predictor)
    exporters["halp"].write(predictor, out / "halp", model, {"step": step})
    taken_s = time.perf_counter() - started
    table = halp_table(predictor, halp_grid(model, step))
    layers = [each.layer for each in model.layers if each.layer is not None and each.layer.kind == "conv2d"]
    keys = ["_".join(str({**layer.values, "batch_size": 1}[name]) for name in KEY) for layer in layers]
    measured_s = alone_s(layers)
    return row("HALP", len(table), taken_s, "all convolutions", sum(table[key] for key in keys), measured_s)


def haq_row(predictor: Predictor, model: CapturedModel, out: Path) -> dict[str, Any]:
    started = time.perf_counter()
    exporters["haq"].write(predictor, out / "haq" / "residual_images_batch1_latency_table.npy", model)
    taken_s = time.perf_counter() - started
    table = haq_table(predictor, model)
    layers = [each.layer for each in model.layers if each.layer is not None and each.layer.kind in QUANTISED]
    measured_s = alone_s(layers)
    widest = float(table[:, WIDEST - 1, WIDEST - 1].sum())
    return row("HAQ", table.size, taken_s, "all convolutions and linear layers", widest, measured_s)


def row(name: str, entries: int, taken_s: float, checked: str, table_ms: float, measured_s: float) -> dict[str, Any]:
    return {
        "table": name,
        "entries": entries,
        "seconds to write": taken_s,
        "checked": checked,
        "table ms": table_ms,
        "measured ms": 1e3 * measured_s,
        "table / measured": table_ms / (1e3 * measured_s),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    predictor = medn.load(options.bundle, options.device)
    model = capture(residual_network(), torch.rand(IMAGE))
    with torch.no_grad():
        rows = [
            once_for_all_row(predictor, options.out),
            halp_row(predictor, model, options.out),
            haq_row(predictor, model, options.out),
        ]
    about = {"device": predictor.device, "measured": "each layer alone, the sum over the entries that were checked"}
    write_tables(options.out, "lookup_tables", rows, about)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
