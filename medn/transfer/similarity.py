"""Which devices behave alike: how they rank the same layers, and how many times as long one takes as the other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medn.core.errors import MednError, UsageError
from medn.core.metrics import score
from medn.core.ranges import Flags
from medn.core.store import JOURNAL_NAME
from medn.core.table import Array
from medn.estimator.layer_predictor import LayerPredictor
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.space import Space
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured
from medn.sources.run_sources import KnownDevices, source_files

LAYERS = 600
"""Of each kind, drawn at random; those count that lie where both devices were measured."""

FEWEST_LAYERS = 10
"""With fewer in common nothing is said of two devices."""

BATCH_SIZES = (1, 2, 4, 8, 16, 32)

Asked = Mapping[str, Any]
"""One layer under its conditions."""


@dataclass(frozen=True)
class Likeness:
    """Two devices and the layers that both know."""

    first: str
    second: str
    kinds: tuple[str, ...]
    layers: int
    rank: float
    """Spearman's correlation of their latencies, the mean over kinds: 1 where they rank all layers alike."""
    ratio: float
    """How many times as long the second takes as the first: the median over layers."""
    spread: float
    """By what factor that ratio varies from layer to layer, typically: 1 where one ratio tells all."""


class Said(NamedTuple):
    """What one device takes for some layers, as logarithms, and whether each lies where it was measured."""

    logs: Array
    inside: Flags


def likenesses(given: Sequence[Path], seed: int = 0) -> tuple[list[Likeness], list[tuple[str, str]]]:
    """Every pair of devices that bundles or runs know, those most alike first; and pairs with too little in common."""
    files = source_files(given)
    known = KnownDevices.read(files)
    predictors = {name: LayerPredictor(bundle, device) for name, (bundle, device) in known.devices.items()}
    if len(predictors) < 2:
        raise UsageError(f"there is nothing to compare with: the bundles know {', '.join(predictors)} and no other")
    kinds = sorted({kind for predictor in predictors.values() for kind in predictor.kinds})
    layers = _layers(kinds, [file.parent for file in files], seed)
    said = {name: _said(predictor, layers) for name, predictor in predictors.items()}
    found, apart = [], []
    for first, second in itertools.combinations(predictors, 2):
        likeness = _likeness(first, second, said[first], said[second])
        if likeness:
            found.append(likeness)
        else:
            apart.append((first, second))
    return sorted(found, key=lambda each: each.spread), apart


def _layers(kinds: Sequence[str], runs: Sequence[Path], seed: int) -> dict[str, list[Asked]]:
    """By kind: what the runs beside the bundles have measured, and layers drawn from what the kind usually is."""
    found: dict[str, dict[tuple[Any, Any], None]] = {kind: {} for kind in kinds}
    for run in {run for run in runs if (run / JOURNAL_NAME).is_file()}:
        with RunFolder(run).store(must_exist=True) as store:
            for point in (measurement.point for measurement in read_measured(store)[0]):
                if point.layer.kind in found:
                    found[point.layer.kind][point.layer, point.condition] = None
    asked: dict[str, list[Asked]] = {
        kind: [{**layer.values, **condition.values} for layer, condition in list(own)[:LAYERS]]
        for kind, own in found.items()
    }
    for kind in (kind for kind in kinds if kind in layer_kinds):
        drawing = Drawing(samplers["random"], Space(layer_kinds[kind], {}), seeded(seed, "likeness", kind))
        drawn = itertools.islice(drawing, max(LAYERS - len(asked[kind]), 0))
        asked[kind] += [
            {**layer.values, "batch_size": BATCH_SIZES[place % len(BATCH_SIZES)]} for place, layer in enumerate(drawn)
        ]
    return asked


def _said(predictor: LayerPredictor, layers: Mapping[str, Sequence[Asked]]) -> dict[str, Said]:
    """By kind; a kind that it cannot be asked about is left out."""
    found = {}
    for kind in (kind for kind in predictor.kinds if layers.get(kind)):
        names = set(predictor.estimator(kind).query.names)
        rows = [{name: value for name, value in row.items() if name in names} for row in layers[kind]]
        try:
            predictions = predictor.predict(rows, kind)
        except MednError:
            continue
        found[kind] = Said(np.log(predictions.latency_s), predictions.in_range)
    return found


def _likeness(first: str, second: str, one: Mapping[str, Said], other: Mapping[str, Said]) -> Likeness | None:
    ranks, differences = {}, []
    for kind in (kind for kind in one if kind in other):
        both = one[kind].inside & other[kind].inside
        if both.sum() < FEWEST_LAYERS:
            continue
        ours, theirs = one[kind].logs[both], other[kind].logs[both]
        ranks[kind] = score(np.exp(ours), np.exp(theirs)).spearman or 0.0
        differences.append(theirs - ours)
    if not ranks:
        return None
    every = np.concatenate(differences)
    middle = float(np.median(every))
    spread = float(np.exp(np.median(np.abs(every - middle))))
    rank = float(np.mean(list(ranks.values())))
    return Likeness(first, second, tuple(ranks), len(every), rank, float(np.exp(middle)), spread)
