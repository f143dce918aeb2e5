"""A run folder as a sweep would leave it, measured on a device that obeys a law."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder

PEAK = 2e10
"""FLOPs a second of the made-up device."""

VISITS = 4

WAITING = 4.0
"""How much longer a call takes that waits, on a device that is entirely busy."""


def write_run(
    path: Path,
    *,
    layers: int = 40,
    devices: tuple[str, ...] = ("made-up",),
    seed: int = 0,
    activations: int = 30,
    utilizations: tuple[float, ...] = (0.0,),
    memory_bytes: int | None = 4096,
    noise: float = 0.0,
    scatter: float = 0.02,
    disturbed: float = 0.0,
) -> Path:
    """Linear layers and activations at two batch sizes; the third linear layer fails, the fourth is unstable.

    Under load one of five calls waits for the others, the longer the busier they are. Visits to a point differ by
    `noise`, and points from the law by `scatter`, which every visit repeats. A share of the points is `disturbed`:
    something makes every visit to them take twice as long, and the kernels timed beside them show it.
    """
    random = np.random.default_rng(seed)
    entries = []
    for place in range(layers):
        sizes = {name: int(np.exp(random.uniform(3, 7))) for name in ("in_features", "out_features")}
        layer = layer_kinds["linear"].layer(**sizes, bias=bool(place % 2))
        work = 2 * sizes["in_features"] * sizes["out_features"]
        entries += [(layer, batch_size, work * batch_size, place) for batch_size in (1, 8)]
    for place in range(activations):
        elements = int(np.exp(random.uniform(6, 13)))
        layer = layer_kinds["activation"].layer(function=("relu", "tanh")[place % 2], elements=elements)
        entries += [(layer, batch_size, (1, 6)[place % 2] * elements * batch_size, -1) for batch_size in (1, 8)]
    visits = []
    for device_place, device in enumerate(devices):
        for (layer, batch_size, work, place), utilization in itertools.product(entries, utilizations):
            point = Point(layer, Condition(batch_size=batch_size, utilization=utilization), device)
            latency_s = (work / PEAK) ** 0.8 * (1 + device_place) * random.lognormal(0, scatter)
            slowed = 2.0 if disturbed and random.random() < disturbed else 1.0
            for pass_number in range(VISITS):
                wild = 2.0 if place == 3 and pass_number % 2 else 1.0
                times = latency_s * wild * slowed * (1 + 0.01 * random.random(5))
                times *= random.lognormal(0, noise) if noise else 1.0
                times[0] *= 1 + WAITING * utilization
                kernels = {"copy": (1e-5 * slowed,)} if disturbed else {}
                visits.append((point, _visit(point, pass_number, times, place == 2, memory_bytes, kernels)))
    with RunFolder(path).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "made-up", "seed": seed, "drop": ["bias"], "unstable_above": 0.1})
        store.record(visits)
    return path


def _visit(
    point: Point,
    pass_number: int,
    times: np.ndarray[tuple[int], np.dtype[np.float64]],
    failed: bool,
    memory_bytes: int | None,
    kernels: dict[str, tuple[float, ...]],
) -> Visit:
    common = {"point_key": point.key, "pass_number": pass_number, "environment_id": "here", "started_at": 0.0}
    if failed:
        return Visit(**common, status="failed", reason="no such kernel")  # type: ignore[arg-type]
    samples = Samples(times, times, np.zeros(len(times), dtype=bool))
    probes = {"load_average": 0.1 * pass_number + 0.001 * int(point.key[:2], 16), "temperature": None}
    quantities = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
    return Visit(**common, status="ok", samples=samples, quantities=quantities, probes=probes, reference_runs=kernels)  # type: ignore[arg-type]
