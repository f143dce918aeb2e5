"""Two ways to make a cache cold, against the hot layer: sweeping a buffer before each call, or taking turns on copies.

    python -m experiments.cold_cache --out results

Both must slow a layer down by about as much; the sweep is what medn uses, because it works for every backend.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.tables import markdown_table, write_tables
from medn.core.environment import DEFAULT_CACHE_BYTES, last_level_cache_bytes
from medn.core.values import Condition, Layer
from medn.devices.cache import cache_flusher
from medn.devices.workload import make_workload
from medn.layer_generators.kind import layer_kinds

LAYERS = {
    "linear 512->512": layer_kinds["linear"].layer(in_features=512, out_features=512),
    "linear 2048->1024": layer_kinds["linear"].layer(in_features=2048, out_features=1024),
    "conv2d 32->32 3x3 at 28x28": layer_kinds["conv2d"].layer(
        in_channels=32, out_channels=32, kernel_size=3, in_size=28, padding=1
    ),
    "conv2d depthwise 96 3x3 at 56x56": layer_kinds["conv2d"].layer(
        in_channels=96, out_channels=96, kernel_size=3, in_size=56, padding=1, groups=96
    ),
    "activation relu, 500,000": layer_kinds["activation"].layer(function="relu", elements=500_000),
}
SAMPLES = 40
MOST_COPIES = 400


def median_us(run: Callable[[], object], before: Callable[[], object]) -> float:
    times = []
    for _ in range(SAMPLES):
        before()
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return sorted(times)[SAMPLES // 2] * 1e6


def measure(layer: Layer, cache_bytes: int) -> dict[str, Any]:
    workload = make_workload(layer, Condition())
    held = sum(tensor.nbytes for tensor in (*workload.module.parameters(), *workload.inputs))
    copies = min(MOST_COPIES, 2 * cache_bytes // held + 1)
    others = [make_workload(layer, Condition()) for _ in range(copies)]
    turns = itertools.cycle(others)

    def run() -> object:
        return workload.module(*workload.inputs)

    def run_next() -> object:
        copy = next(turns)
        return copy.module(*copy.inputs)

    hot = median_us(run, lambda: None)
    swept = median_us(run, cache_flusher(cache_bytes))
    for _ in range(copies):
        run_next()
    rotated = median_us(run_next, lambda: None)
    return {
        "hot us": hot,
        "swept us": swept,
        "rotated us": rotated,
        "swept / hot": swept / hot,
        "rotated / hot": rotated / hot,
        "copies": copies,
    }


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cache_bytes = last_level_cache_bytes() or DEFAULT_CACHE_BYTES
    with torch.inference_mode():
        rows = [{"layer": name, **measure(layer, cache_bytes)} for name, layer in LAYERS.items()]
    write_tables(options.out, "cold_cache", rows, {"last level cache bytes": cache_bytes, "samples": SAMPLES})
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
