"""A bundle for whole networks of convolutions, of a device whose layers take as long as their FLOPs say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from made_up_bundle import made_up_candidates
from made_up_run import PEAK

from medn.choosing.bundling import bundle_run
from medn.core.values import Condition, Layer, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder

KINDS = ("activation", "batch_norm2d", "conv2d", "linear", "max_pool2d")
LAYERS = 40


def write_convolution_bundle(folder: Path) -> Path:
    """The run FOLDER and its bundle."""
    random = np.random.default_rng(0)
    visits = []
    for layer in (layer for _ in range(LAYERS) for layer in _layers(random)):
        values = SimpleNamespace(**layer.values)
        for batch_size in (1, 8):
            flops = layer_kinds[layer.kind].costs(values, batch_size, 4).flops
            point = Point(layer, Condition(batch_size=batch_size), "made-up")
            times = flops / PEAK * (1 + 0.01 * random.random(5))
            samples = Samples(times, times, np.zeros(len(times), dtype=bool))
            visits += [(point, Visit(point.key, number, "here", 0.0, "ok", samples=samples)) for number in range(2)]
    with RunFolder(folder).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "convolutions", "seed": 0, "drop": [], "unstable_above": 0.1})
        store.record(visits)
    return bundle_run(folder, made_up_candidates(folder, "affine", KINDS))


def _layers(random: np.random.Generator) -> list[Layer]:
    """One layer of each kind."""
    wide, high, size = (int(value) for value in random.integers((4, 4, 7), (256, 256, 64)))
    image = {"channels": wide, "in_size": size}
    return [
        layer_kinds["activation"].layer(function=("relu", "hardswish")[size % 2], elements=wide * size),
        layer_kinds["batch_norm2d"].layer(**image),
        layer_kinds["conv2d"].layer(
            in_channels=wide,
            out_channels=high,
            in_size=size,
            kernel_size=(1, 3, 5)[size % 3],
            same_padding=True,
            stride=1 + high % 2,
            bias=bool(wide % 2),
        ),
        layer_kinds["linear"].layer(in_features=wide, out_features=high),
        layer_kinds["max_pool2d"].layer(**image, kernel_size=2 + high % 3, stride=2 + high % 3),
    ]
