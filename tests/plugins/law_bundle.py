"""A bundle for the backend `law`: linear layers that take from 50 us to 3 ms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made_up_bundle import made_up_candidates
from made_up_run import PEAK

from medn.choosing.bundling import bundle_run
from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder


def write_law_bundle(folder: Path) -> Path:
    """The run FOLDER and its bundle."""
    random = np.random.default_rng(0)
    visits = []
    for _ in range(60):
        wide, high = (int(np.exp(random.uniform(np.log(256), np.log(2048)))) for _ in range(2))
        point = Point(layer_kinds["linear"].layer(in_features=wide, out_features=high), Condition(batch_size=8), "law")
        seconds = 2 * 8 * wide * high / PEAK * random.lognormal(0, 0.02)
        for number in range(4):
            times = seconds * (1 + 0.01 * random.random(5))
            samples = Samples(times, times, np.zeros(len(times), dtype=bool))
            visits.append((point, Visit(point.key, number, "here", 0.0, "ok", samples=samples)))
    with RunFolder(folder).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "law", "seed": 0, "drop": [], "unstable_above": 0.1})
        store.record(visits)
    return bundle_run(folder, made_up_candidates(folder, "affine", ("linear",)))
