"""Convolutions on an AMD GPU (ROCm/MIOpen find-db, MIT): the fastest of many algorithms per problem.

The algorithm and its workspace are known only after the search, so they are no inputs.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from experiments.public.convolutions import convolution_inputs
from experiments.public.hardware import Device, device_features
from experiments.public.task import Published, Task, build_table, chosen, joined, read_columns, three_parts, whole

SOURCE = "quoted with the data: 60 s of one core, same rows, random 80/20"
PUBLISHED = (
    Published("AutoGluon", 0.0662, SOURCE),
    Published("FLAML", 0.0652, SOURCE),
    Published("mljar", 0.0524, SOURCE),
    Published("tuned LightGBM", 0.0504, SOURCE),
)
DEVICE = "gfx908_120cu"
DEVICES = {DEVICE: Device(120, 23_100, 1230, 8)}
NAMES = {
    "in_c": "in_channels",
    "out_c": "out_channels",
    "in_h": "in_h",
    "in_w": "in_w",
    "kh": "kernel_h",
    "kw": "kernel_w",
    "stride_h": "stride_h",
    "stride_w": "stride_w",
    "pad_h": "padding_h",
    "pad_w": "padding_w",
    "dil_h": "dilation_h",
    "dil_w": "dilation_w",
    "groups": "groups",
}


def load(folder: Path, seed: int) -> list[Task]:
    columns = read_columns(folder / "miopen_conv_fwd.csv.gz")
    wanted = (columns["device"] == DEVICE) & (columns["dtype"] == "fp32") & (columns["layout"] == "NCHW")
    rows = chosen(columns, wanted)
    values = SimpleNamespace(**{name: rows[given].astype(np.float64) for given, name in NAMES.items()}, bias=0.0)
    numbers = convolution_inputs(values, rows["batch"].astype(np.float64), DEVICES[DEVICE].multiprocessors)
    sheet = device_features(DEVICES, rows["device"], numbers["flops"], numbers["memory_bytes"])
    groups = joined(*whole(rows, "batch", *NAMES).values())
    table = build_table(numbers | sheet, {}, rows["latency_ms"], groups)
    parts = three_parts(groups, seed, (0.7, 0.1, 0.2))
    about = f"{DEVICE}, fp32, NCHW, all algorithms, random 80/20"
    return [Task("miopen conv2d", about, table, parts, 0.043, PUBLISHED, seconds=60.0)]
