"""Layers that predictions are timed for: as sweeps draw them, as people ask for them, and as tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from medn.core.errors import UsageError
from medn.core.values import Scalar
from medn.estimator.estimator import Estimator
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep
from medn.predictor.predictor import Predictor

LAYERS = 1000
"""Different layers of each kind that are asked for."""
BEYOND = 100

PLAN = """
name: bench
seed: 1
devices: [torch]
sampler: sobol
budget: {points: POINTS}
layers: {KIND: {}}
conditions: {batch_size: [1, 4, 16]}
"""

Columns = dict[str, Any]
Layers = Mapping[str, Sequence[dict[str, Scalar]]]
"""Layers of each kind, as one would ask for them."""


def usual_layers(predictor: Predictor, kind: str) -> list[dict[str, Scalar]]:
    """Different layers of a kind as one would ask for them; those that lie where was measured, if any do."""
    estimator = predictor.estimator(kind)
    rows = _planned(estimator.kind) if kind in layer_kinds else _drawn(estimator)
    usual = [row for row in rows if estimator.layer(row).in_range]
    return (usual or rows)[:LAYERS]


def _planned(kind: LayerKind) -> list[dict[str, Scalar]]:
    """Layers as a sweep draws them."""
    points = plan_points(parse_sweep(PLAN.replace("KIND", kind.name).replace("POINTS", str(3 * LAYERS)))).points
    return [{**_spoken(kind, point.layer.values), "batch_size": point.condition.batch_size} for point in points]


def _drawn(estimator: Estimator) -> list[dict[str, Scalar]]:
    """Layers of a kind that no sweep knows, drawn from between what was measured."""
    random, known = np.random.default_rng(1), estimator.range
    columns: dict[str, list[Any]] = {}
    for each in estimator.kind.parameters:
        if each.name in known.schema.categories:
            strings = [known.schema.categories[each.name][code] for code in known.seen[each.name]]
            columns[each.name] = random.choice(strings, 3 * LAYERS).tolist()
        elif each.name in known.schema.names:
            place = known.schema.index(each.name)
            numbers = random.uniform(known.low[place], known.high[place], 3 * LAYERS)
            columns[each.name] = (numbers if each.type is float else np.rint(numbers).astype(int)).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] or [{}]


def _spoken(kind: LayerKind, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A layer without what goes without saying."""
    told = kind.complete(values)
    return {each.name: told[each.name] for each in kind.parameters if told[each.name] != each.default}


def as_columns(rows: Sequence[Mapping[str, Scalar]], kind: LayerKind, count: int) -> Columns:
    """So many rows as columns, those given over and over."""
    defaults = {each.name: each.default for each in kind.parameters}
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.resize(np.array([row.get(name, defaults.get(name)) for row in rows]), count) for name in names}


def shuffled(rows: Sequence[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """The same layers with their names in any order."""
    random = Random(1)
    return [{name: row[name] for name in random.sample(list(row), len(row))} for row in rows]


def with_shorthands(estimator: Estimator) -> list[dict[str, Scalar]]:
    """Layers as people and sweeps ask for them, with shorthands and conveniences, those that lie where was measured."""
    kind, random = estimator.kind, Random(1)
    if not any(name in kind.shorthands or name in kind.conveniences for name in kind.sweep):
        return []
    found = []
    for _ in range(LAYERS):
        asked = {name: domain.at(random.random()) for name, domain in kind.sweep.items()}
        try:
            found += [asked] if estimator.layer(asked).in_range else []
        except UsageError:  # what cannot go together
            continue
    return found


def out_of_range(estimator: Estimator, rows: Sequence[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """The same layers for a batch that nobody measured."""
    found = [{**row, "batch_size": 100_000} for row in rows[:BEYOND]]
    return [row for row in found if not estimator.layer(row).in_range]


def mixed_columns(predictor: Predictor, layers: Layers, count: int) -> Columns:
    """Rows of all kinds in turns; a gap where a kind has no such column."""
    each = -(-count // len(layers))
    parts = {kind: as_columns(rows, predictor.estimator(kind).kind, each) for kind, rows in layers.items()}
    order = np.arange(each * len(parts)).reshape(len(parts), each).T.ravel()[:count]
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    columns: Columns = {"kind": np.repeat(list(parts), each)[order]}
    for name in names:
        is_text = any(part[name].dtype.kind == "U" for part in parts.values() if name in part)
        gap = np.full(each, "") if is_text else np.full(each, np.nan)
        column = np.concatenate([part.get(name, gap) for part in parts.values()])[order]
        columns[name] = column.astype(object) if is_text else column
    return columns
