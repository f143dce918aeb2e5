"""What the quickstart measures, for as long as it has time: the networks' own layers, some of every kind, then more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from medn.core.shipped import CONFIGS, shipped
from medn.core.store import Store
from medn.core.values import Point
from medn.devices.backend import backends
from medn.devices.probe import probes
from medn.layer_generators.plan import listed_layers, plan_points
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import NextPoints

LAYERS_FIRST = 14
"""Of each kind, before any kind gets more: of fewer hardly anything can be learned."""
POINTS_AT_ONCE = 40
"""Then so many at a time, each with all its visits: when time is up, few have been visited too rarely."""
SHORTEST_POINT_S = 0.02
"""No point with its visits takes less: more points than that allows need not be planned."""


def quick_config() -> SweepConfig:
    text = shipped(CONFIGS)["quickstart"].read_text(encoding="utf-8")
    return parse_sweep(text, list(backends), list(probes))


def growing_plan(config: SweepConfig, seconds: float) -> NextPoints:
    """Points upon points in an order that more time only continues: another call goes on where one has ended."""
    plan: Iterator[list[Point]] | None = None

    def next_points(store: Store) -> Sequence[Point]:
        nonlocal plan
        if plan is None:
            most = len(store.visited()) + int(seconds / SHORTEST_POINT_S)
            plan = portions(config, most)
        return next(plan, [])

    return next_points


def portions(config: SweepConfig, most: int) -> Iterator[list[Point]]:
    """The points of a plan of so many: listed layers with some of every kind, then all others by the kinds' shares."""
    budget = config.budget.model_copy(update={"points": most})
    listed = listed_layers(config)
    layers = Counter(layer.kind for layer in listed)
    first: list[Point] = []
    others: dict[Point, float] = {}
    for point in plan_points(config.model_copy(update={"budget": budget})).points:
        kind = point.layer.kind
        layers[kind] += point.layer not in listed
        if point.layer in listed or layers[kind] <= LAYERS_FIRST:
            first.append(point)
        else:
            others[point] = layers[kind] / config.layers[kind].share
    yield first
    rest = sorted(others, key=others.__getitem__)
    for begin in range(0, len(rest), POINTS_AT_ONCE):
        yield rest[begin : begin + POINTS_AT_ONCE]
