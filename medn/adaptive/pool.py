"""What an adaptive sweep chooses from: points drawn as the config says, by its seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from medn.core.table import Array, as_inputs
from medn.core.values import Condition, Layer, Point
from medn.layer_generators.plan import listed_layers, plan_points
from medn.layer_generators.sampler import seeded
from medn.layer_generators.sweep import SweepConfig
from medn.runs.inputs import input_columns
from medn.runs.tables import KindTable, column_of

POOL_POINTS = 2000
"""Pairs of a layer and a condition for each kind, on average: many more than are measured, and soon drawn."""

Pair = tuple[Layer, Condition]


@dataclass(frozen=True)
class PointPool:
    """Pairs by kind, those that the config lists first, the others in random order; every device measures the same."""

    pairs: Mapping[str, Sequence[Pair]]
    listed: frozenset[Layer]
    devices: tuple[str, ...]

    @classmethod
    def of(cls, config: SweepConfig) -> PointPool:
        devices, listed = tuple(device.name for device in config.devices), frozenset(listed_layers(config))
        points = max(POOL_POINTS * len(config.layers) * len(devices), config.budget.points or 0)
        larger = config.model_copy(update={"budget": config.budget.model_copy(update={"points": points})})
        drawn: dict[str, dict[Pair, None]] = {kind: {} for kind in config.layers}
        for point in plan_points(larger).points:
            drawn[point.layer.kind][point.layer, point.condition] = None
        pairs = {kind: _shuffled(list(own), config.seed, kind) for kind, own in drawn.items()}
        # Sorting keeps the order of those that are alike.
        return cls(
            {kind: sorted(own, key=lambda pair: pair[0] not in listed) for kind, own in pairs.items()}, listed, devices
        )

    def points(self, pairs: Iterable[Pair]) -> list[Point]:
        return [Point(layer, condition, device) for layer, condition in pairs for device in self.devices]

    def keys(self, pairs: Iterable[Pair]) -> list[str]:
        return [point.key for point in self.points(pairs)]

    @cached_property
    def _by_key(self) -> dict[str, Pair]:
        return {key: pair for own in self.pairs.values() for pair in own for key in self.keys([pair])}

    def known(self, keys: Iterable[str]) -> list[Pair]:
        """The pairs of these points, each once; a point that is not here is of another config."""
        return list(dict.fromkeys(self._by_key[key] for key in keys if key in self._by_key))


def _shuffled(pairs: Sequence[Pair], seed: int, kind: str) -> list[Pair]:
    """The conditions of one layer were drawn together, and any points that are drawn should be of many layers."""
    return [pairs[place] for place in seeded(seed, "pool", kind).permutation(len(pairs))]


def some(pairs: Sequence[Pair], most: int, random: np.random.Generator) -> list[Pair]:
    return [pairs[place] for place in np.sort(random.permutation(len(pairs))[:most])]


def pair_inputs(table: KindTable, pairs: Sequence[Pair]) -> Array:
    """Inputs of points that were not measured, as the table of those that were, on one device, has them."""
    kind, (device,) = table.layer_kind, table.devices
    rows = [{"device": device, **kind.complete(layer.values), **condition.values} for layer, condition in pairs]
    columns = {name: column_of([row[name] for row in rows]) for name in rows[0]}
    found = input_columns(kind, columns, table.choice, (), table.sheets, table.dtypes)
    return as_inputs({name: found[name] for name in table.table.schema.names}, table.table.schema)
