"""The points that could be measured on a new device, and what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.adaptive.pool import Pair, PointPool
from medn.core.errors import MednError, UsageError
from medn.core.ranges import WORK_COLUMNS
from medn.core.registry import known_name
from medn.core.store import JOURNAL_NAME
from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.layer_predictor import LayerPredictor
from medn.layer_generators.features import analytic_columns
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import SweepConfig
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured
from medn.runs.tables import column_of
from medn.sources.run_sources import KnownDevices


def drawn(config: SweepConfig, device: str) -> PointPool:
    """What a config describes, for another device than it names."""
    return replace(PointPool.of(config), devices=(device,))


def measured_elsewhere(runs: Sequence[Path], device: str) -> PointPool:
    """What the sources themselves were measured at, where they lie in their runs."""
    pairs: dict[str, dict[Pair, None]] = {}
    for run in runs:
        if not (run / JOURNAL_NAME).is_file():
            continue
        with RunFolder(run).store(must_exist=True) as store:
            for measurement in read_measured(store)[0]:
                point = measurement.point
                pairs.setdefault(point.layer.kind, {})[point.layer, point.condition] = None
    if not pairs:
        raise UsageError(
            "nothing says which points to choose from: give --config or --for, or sources that lie in their runs"
        )
    return PointPool({kind: list(own) for kind, own in pairs.items()}, frozenset(), (device,))


def restricted(pool: PointPool, known: KnownDevices, wanted: Sequence[str]) -> PointPool:
    """The kinds that were asked for, or all, of those that can be measured and that known devices know."""
    kinds = {kind for kind in pool.pairs if kind in layer_kinds and next(known.entries(kind), None)}
    if wanted:
        kinds = {known_name("layer kind that the sources know", kind, kinds) for kind in wanted}
    if not kinds:
        raise UsageError(f"the sources know none of the layer kinds to be measured: {', '.join(sorted(pool.pairs))}")
    return replace(pool, pairs={kind: own for kind, own in pool.pairs.items() if kind in kinds})


def features(kind: str, pairs: Sequence[Pair], known: KnownDevices) -> Array:
    """What tells points of a kind apart: sizes and work as logarithms, and what known devices take."""
    rows = [{**layer_kinds[kind].complete(layer.values), **condition.values} for layer, condition in pairs]
    columns = {name: column_of([row[name] for row in rows]) for name in rows[0]}
    worked_out = analytic_columns(layer_kinds[kind], columns)
    own = sizes({**columns, **{name: worked_out[name] for name in WORK_COLUMNS if name in worked_out}})
    return np.column_stack([*own, *_predicted(kind, rows, known)])


def sizes(columns: Mapping[str, NDArray[Any]]) -> list[Array]:
    """Numbers as logarithms. Categories are left to what known devices take: near the middle of a cluster only the most
    frequent ones would be met."""
    numbers = (np.asarray(column) for column in columns.values())
    return [np.log1p(np.abs(column.astype(np.float64))) for column in numbers if column.dtype.kind in "biuf"]


def _predicted(kind: str, rows: Sequence[Mapping[str, Scalar]], known: KnownDevices) -> list[Array]:
    """Logarithms of what each known device takes; one that cannot be asked about these points is passed over."""
    found = []
    for bundle, device in known.devices.values():
        predictor = LayerPredictor(bundle, device)
        if kind not in predictor.kinds:
            continue
        names = predictor.estimator(kind).query.names
        asked = {name: [row[name] for row in rows] for name in rows[0] if name in names}
        try:
            found.append(np.log(predictor.predict(asked, kind).latency_s))
        except MednError:
            continue
    return found
