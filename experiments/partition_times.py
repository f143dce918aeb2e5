"""How long it takes to find partitions again: split between two devices, and stages of a pipeline.

    python -m experiments.partition_times --out results

Graphs of growing size with made-up seconds: a chain, one with a shortcut around every six layers as residual networks
have, and one in which layers of a block read all those before them. Seconds of the processor, the lowest of several
runs; a split is found for links from so fast that all goes over to so slow that nothing does, and the worst is told.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.tables import markdown_table, write_tables
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor
from medn.partition.split import split_between
from medn.partition.stages import pipeline_stages

SIZES = (100, 300, 1000)
BANDWIDTHS = (1e6, 1e7, 1e8, 1e9, 1e10)
STAGES = (2, 4, 8)
RUNS = 5
BLOCK = 24


def chain(layer: int, layers: int) -> set[int]:
    return {layer + 1} & set(range(layers))


def residual(layer: int, layers: int) -> set[int]:
    return chain(layer, layers) | ({layer + 6} & set(range(layers)) if layer % 6 == 0 else set())


def dense(layer: int, layers: int) -> set[int]:
    end = min(layers, (layer // BLOCK + 1) * BLOCK)
    return chain(layer, layers) | set(range(layer + 1, end, 2))


SHAPES: dict[str, Callable[[int, int], set[int]]] = {"chain": chain, "residual": residual, "dense": dense}


def made_up(shape: str, layers: int, random: np.random.Generator) -> LayerGraph:
    sizes = random.exponential(400_000, layers)
    tensors = [Tensor(OUTSIDE, (0,), 600_000)]
    for layer in range(layers):
        readers = tuple(sorted(SHAPES[shape](layer, layers)))
        tensors.append(Tensor(layer, readers, float(sizes[layer]), layer == layers - 1))
    return LayerGraph(tuple(map(str, range(layers))), tuple(tensors))


def lowest_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return 1e3 * min(times)


def measure(shape: str, layers: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    graph = made_up(shape, layers, random)
    here_s = random.exponential(1e-3, layers)
    there_s = here_s * random.uniform(0.1, 1.2, layers)
    links = [Link(bandwidth, 1e-3) for bandwidth in BANDWIDTHS]
    row: dict[str, Any] = {"graph": shape, "layers": layers}
    for name, one_way in (("split, ms", False), ("split one way, ms", True)):
        times_ms = [lowest_ms(partial(split_between, graph, here_s, there_s, link, one_way=one_way)) for link in links]
        row |= {name: float(np.median(times_ms)), f"{name} at worst": max(times_ms)}
    for count in STAGES:
        seconds = np.tile(here_s, (count, 1))
        row[f"{count} stages, ms"] = lowest_ms(partial(pipeline_stages, graph, seconds, links[-1]))
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    rows = [measure(shape, layers) for shape in SHAPES for layers in SIZES]
    write_tables(options.out, "partition_times", rows, {"runs": RUNS, "bandwidths, bytes/s": BANDWIDTHS})
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
