"""Whether one bundle of public tables could answer for any device from its data sheet: whole tables left out.

    python -m experiments.cross_device.prior --data DATA --out results

Every device of a table is predicted by the devices of another table alone, which other people measured with other
libraries: convolutions of TensorFlow on NVIDIA GPUs (cde) by those of MIOpen on AMD GPUs and the other way round, bf16
products of serving libraries (aic) by fp32 products of PyTorch (NeuSight) and the other way round. This is what a user
meets whose device and library are in no table. Beside it stand, from the same devices, the fitted roofline with its
rates scaled by the data sheets, and the time at the peaks times a factor. Every device is kept in
OUT/cross_device/prior by itself. Writes prior.{md,json}.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.cells import Setting, devices_run, known_devices
from experiments.cross_device.neusight import CLASSES, learned
from experiments.cross_device.tables import TABLES
from experiments.cross_device.zero_shot import Known, zero_shot
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.atomic import atomic_write
from medn.runs.tables import read_source

NAME = "prior"
PAIRS = (("cde", "miopen"), ("miopen", "cde"), ("aic", "neusight"), ("neusight", "aic"))
"""A table that is left out, and the one that is known."""

WAYS = ("zero_shot", "roofline", "peaks")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    known = {name: _known(name, options.data, options.out) for name in dict(PAIRS)}
    rows = [row for pair in PAIRS for row in _rows(*pair, known, options.out / "cross_device" / NAME, options.seed)]
    about = {
        "errors": "mean of |predicted - measured| / measured, in per cent",
        "zero_shot": "what `medn adapt --points 0` says",
        "roofline": "the mean of the rooflines fitted on the known devices, their rates scaled by the data sheets",
        "peaks": "the time at the peaks, times what known devices take of it on average",
        "covered": "rows inside the interval of zero_shot",
    }
    write_tables(options.out, NAME, rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n\n")
    return 0


def _known(name: str, data: Path, out: Path) -> Known:
    if name in TABLES:
        setting = Setting(data, out)
        return Known(known_devices(TABLES[name], setting), devices_run(TABLES[name], setting))
    (linear,) = (each for each in CLASSES if each.name == "linear")
    run = learned(linear, data, out)
    return Known(run / f"{run.name}.medn", run)


def _rows(left_out: str, by: str, known: dict[str, Known], kept: Path, seed: int) -> list[dict[str, Any]]:
    run = known[left_out].run
    found = {}
    for device in sorted(read_source(run).sheets):
        path = kept / f"{left_out}-{device.replace(' ', '_')}-{seed}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, json.dumps(zero_shot(device, run, known[by], seed), indent=1).encode())
        found[device] = json.loads(path.read_text())
    rows = [{"device": device, **each["families"], "covered": each["covered"]} for device, each in found.items()]
    mean = {name: float(np.mean([row[name] for row in rows])) for name in (*WAYS, "covered")}
    return [
        {"table": left_out, "known": by, **{name: _told(value) for name, value in row.items()}}
        for row in (*rows, {"device": "mean", **mean})
    ]


def _told(value: Any) -> Any:
    return value if isinstance(value, str) else round(100 * value, 1)


if __name__ == "__main__":
    end_with(main)
