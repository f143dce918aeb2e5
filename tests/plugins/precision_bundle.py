"""A bundle of layers in fp32 and int8: in int8, convolutions are faster there and linear layers slower."""

from __future__ import annotations

from pathlib import Path

import made_up_bundle
import numpy as np

from medn.choosing.bundling import bundle_run
from medn.core.table import Table
from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.runs.folder import RunFolder

SECONDS = {("conv2d", "fp32"): 2e-3, ("conv2d", "int8"): 1e-3, ("linear", "fp32"): 1e-3, ("linear", "int8"): 2e-3}


def by_precision(table: Table) -> Form:
    """What was measured: a time for each kind and precision, whatever the size."""
    kind = "conv2d" if "in_channels" in table.schema.names else "linear"
    int8 = table.schema.categories["dtype"].index("int8")
    fast, slow = SECONDS[kind, "int8"], SECONDS[kind, "fp32"]
    slope = (fast - slow) if int8 else (slow - fast)
    intercept = slow if int8 else fast
    return Affine(np.array([table.schema.index("dtype")], dtype=np.int32), np.array([slope]), intercept, 1e-7)


def write_precision_bundle(run: Path) -> Path:
    """The run folder and its bundle."""
    visits = []
    for size in range(8, 40):
        layers = [
            layer_kinds["conv2d"].layer(in_channels=size, out_channels=size, in_size=size, kernel_size=1 + size % 3),
            layer_kinds["linear"].layer(in_features=16 * size, out_features=size),
        ]
        for layer, dtype in ((layer, dtype) for layer in layers for dtype in ("fp32", "int8")):
            point = Point(layer, Condition(dtype=dtype), "made-up")
            times = np.full(3, SECONDS[layer.kind, dtype])
            samples = Samples(times, times, np.zeros(3, dtype=bool))
            visits += [(point, Visit(point.key, number, "here", 0.0, "ok", samples=samples)) for number in range(2)]
    with RunFolder(run).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "precision", "seed": 0, "drop": [], "unstable_above": 0.1})
        store.record(visits)
    made_up_bundle.FORMS["by precision"] = by_precision
    return bundle_run(run, made_up_bundle.made_up_candidates(run, "by precision", ("conv2d", "linear")))
