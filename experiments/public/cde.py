"""Convolutions in TensorFlow 1 on six GPUs (CDECatapult/ml-performance-prediction, Apache-2.0), to train or to apply.

The filter and the split sizes are the authors': their rows themselves were drawn at random and not kept.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from experiments.public.convolutions import convolution_inputs
from experiments.public.hardware import Device, device_features
from experiments.public.task import Published, Task, build_table, chosen, joined, read_columns, whole
from medn.core.splits import Parts

DEVICES = {
    "K40": Device(15, 4_290, 288, 1.5),
    "K80": Device(13, 4_113, 240, 1.5),
    "M60": Device(16, 4_825, 160, 2),
    "GTX1080Ti": Device(28, 11_340, 484, 2.75),
    "P100": Device(56, 9_526, 732, 4),
    "V100": Device(80, 14_130, 900, 6),
}
PUBLISHED = (
    Published("authors' network", 0.109, "Justus et al., all GPUs, batch below 33"),
    Published(
        "LightGBM, 2,500 trees of 255 leaves",
        0.0806,
        "quoted with the data, a random split of the same sizes, inputs not stated",
    ),
)
SIZES = (104_166, 13_021)
"""Rows to learn from and to choose by; as many again are tested."""
LARGER_TREES = {"num_leaves": 127, "learning_rate": 0.1, "min_child_samples": 10, "feature_fraction": 0.5}
SETTINGS = {"lightgbm": LARGER_TREES, "lightgbm_on_roofline": LARGER_TREES}


def load(folder: Path, seed: int) -> list[Task]:
    columns = read_columns(folder / "cde_layers.csv.gz")
    rows = chosen(columns, (columns["op"] == "conv2d") & (columns["batch"] < 33))
    sizes = whole(rows, "batch", "in_c", "out_c", "in_hw", "kernel", "stride", "padding_same", "bias")
    # TensorFlow pads so that one output comes out per step; half of it on each side may be half a pixel.
    outputs = np.ceil(sizes["in_hw"] / sizes["stride"])
    padding = np.maximum((outputs - 1) * sizes["stride"] + sizes["kernel"] - sizes["in_hw"], 0) / 2
    padding *= sizes["padding_same"]
    values = SimpleNamespace(
        in_channels=sizes["in_c"],
        out_channels=sizes["out_c"],
        **{
            f"{part}_{axis}": sizes[name]
            for part, name in (("in", "in_hw"), ("kernel", "kernel"), ("stride", "stride"))
            for axis in "hw"
        },
        padding_h=padding,
        padding_w=padding,
        dilation_h=1.0,
        dilation_w=1.0,
        groups=1.0,
        bias=sizes["bias"],
    )
    multiprocessors = np.array([DEVICES[name].multiprocessors for name in rows["device"]])
    numbers = convolution_inputs(values, sizes["batch"], multiprocessors)
    numbers = {name: column for name, column in numbers.items() if not name.endswith("_w")}  # images are square
    # Training computes the gradients of the inputs and of the weights too: two more products of the same size.
    passes = np.where(rows["pass"] == "forward", 1.0, 3.0)
    for name in ("flops", "bytes_read", "bytes_written", "memory_bytes"):
        numbers[name] = numbers[name] * passes
    numbers |= device_features(DEVICES, rows["device"], numbers["flops"], numbers["memory_bytes"])
    words = {name: rows[name] for name in ("device", "pass", "activation", "optimizer")}
    groups = joined(*sizes.values(), *words.values())
    table = build_table(numbers, words, rows["latency_ms"], groups)
    order = np.random.default_rng(seed).permutation(len(table))
    train, validation, test = np.split(order, np.cumsum(SIZES))
    parts = Parts(train, validation, np.empty(0, dtype=int), test)
    about = "six GPUs, batch below 33, random rows"
    return [Task("cde conv2d", about, table, parts, 0.065, PUBLISHED, seconds=110.0, settings=SETTINGS)]
