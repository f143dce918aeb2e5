"""The plan of a sweep: every point to be measured, the same for the same config, and the order of each pass."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from medn.core.domains import Domain, Fixed
from medn.core.errors import UsageError
from medn.core.values import Condition, Layer, Point, Scalar
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.sweep import SweepConfig

DEFAULT_POINTS = 1000
"""Where a config bounds its points neither by a budget nor by a grid."""
MOST_POINTS = 200_000
"""A grid without a budget beyond this is not what anybody means to measure."""
CONDITION_DRAWS = 64
"""Conditions drawn for a layer before its grid is gone through."""

OF_THE_WORKLOAD = ("batch_size", "cache", "dtype", "schedule")
"""Conditions that cost nothing to change, as each visit builds its layer anew; others are states of the machine."""

FIRST_ROUNDS = (1 / 8, 1 / 4, 1 / 2, 1.0)
LEAST_OF_A_ROUND = 4
"""The first pass goes round the blocks: what share of each is visited after each round, and how many points at least.
So whatever time a sweep has, every device has points, and none many times as many as another."""

Pair = tuple[Layer, Condition]


@dataclass(frozen=True)
class SweepPlan:
    """The points of a sweep, and why candidates were turned away while they were drawn."""

    points: list[Point]
    rejected: Mapping[str, Mapping[str, int]]
    """By layer kind, every kind of the sweep: an example of each reason, and how often it was met."""

    def summary(self) -> dict[str, Any]:
        """Counts per kind and device, ready to be printed or written as JSON."""
        layers = Counter(layer.kind for layer in {point.layer for point in self.points})
        points = Counter((point.layer.kind, point.device) for point in self.points)
        devices = list(dict.fromkeys(point.device for point in self.points))
        return {
            "points": len(self.points),
            "layers": layers.total(),
            "devices": devices,
            "kinds": {
                kind: {
                    "layers": layers[kind],
                    "points": {device: points[kind, device] for device in devices},
                    "rejected": dict(rejected),
                }
                for kind, rejected in self.rejected.items()
            },
        }


def plan_points(config: SweepConfig) -> SweepPlan:
    """Every point of a sweep, by its seed alone: every device measures the same layers under the same conditions.

    A larger budget keeps the points of a smaller one: each kind draws from a generator of its own, and each layer
    draws its conditions from its own.
    """
    grid = _condition_grid(config)
    drawings = {kind: _drawing(config, kind, grid) for kind in config.layers}
    streams = {kind: _pairs(config, drawing, grid) for kind, drawing in drawings.items()}
    devices = [device.name for device in config.devices]
    if config.budget.points is None and samplers[config.sampler].ends:
        taken = _take_all(streams, MOST_POINTS // len(devices))
    else:
        shares = {kind: chosen.share for kind, chosen in config.layers.items()}
        taken = _take(streams, shares, (config.budget.points or DEFAULT_POINTS) // len(devices))
    pairs = itertools.chain.from_iterable(taken.values())
    return SweepPlan(
        [Point(layer, condition, device) for layer, condition in pairs for device in devices],
        {kind: drawing.rejected for kind, drawing in drawings.items()},
    )


def pass_order(points: Sequence[Point], seed: int, pass_number: int, first: Collection[Layer] = ()) -> list[Point]:
    """The points in a fresh random order for each pass, in blocks that share the state of the machine.

    Another device or thread count costs the start of a process, another utilisation the settling of the load, and what
    a user's own condition costs nobody knows; so the blocks are shuffled, and the points inside each. Time may run out
    in the first pass: it goes round the blocks, and begins with the layers in `first`.
    """
    blocks = _shuffled_blocks(points, seed, pass_number)
    if pass_number:
        return list(itertools.chain.from_iterable(blocks))
    return sorted(_in_rounds(blocks), key=lambda point: point.layer not in first)


def _in_rounds(blocks: Sequence[Sequence[Point]]) -> Iterator[Point]:
    """Some points of every block, then more of every block."""
    begun = [0] * len(blocks)
    for share in FIRST_ROUNDS:
        for place, block in enumerate(blocks):
            end = max(math.ceil(share * len(block)), begun[place] + LEAST_OF_A_ROUND)
            yield from block[begun[place] : end]
            begun[place] = end


def _shuffled_blocks(points: Sequence[Point], seed: int, pass_number: int) -> list[list[Point]]:
    random = seeded(seed, "pass", pass_number)
    blocks: dict[tuple[Scalar, ...], list[Point]] = {}
    for point in points:
        condition = point.condition
        state = (value for name, value in condition.values.items() if name not in OF_THE_WORKLOAD)
        blocks.setdefault((point.device, *state), []).append(point)
    shuffled = list(blocks.values())
    random.shuffle(shuffled)
    return [[block[index] for index in random.permutation(len(block))] for block in shuffled]


def _domains(config: SweepConfig) -> dict[str, Domain]:
    """What conditions are drawn from. The user's own ones that are always the same draw nothing."""
    varied = {name: domain for name, domain in config.columns.items() if not isinstance(domain, Fixed)}
    return {**config.conditions.domains, **varied}


def _condition_grid(config: SweepConfig, own: Mapping[str, Domain] = MappingProxyType({})) -> list[Condition]:
    """Every combination of conditions; `own` ones stand in place of the config's."""
    domains = {**_domains(config), **own}
    combinations = itertools.product(*(domain.grid() for domain in domains.values()))
    return [_condition(dict(zip(domains, values, strict=True)), config) for values in combinations]


def _condition(drawn: Mapping[str, Scalar], config: SweepConfig) -> Condition:
    constant = {name: domain.value for name, domain in config.columns.items() if isinstance(domain, Fixed)}
    return Condition(**constant, **drawn)


def _drawing(config: SweepConfig, kind: str, grid: Sequence[Condition]) -> Drawing:
    lightest = min(grid, key=lambda condition: condition.batch_size * config.element_bytes[condition.dtype])
    space, random = config.layers[kind].space, seeded(config.seed, kind)
    return Drawing(samplers[config.sampler], space, random, refuse=lambda layer: _excess(layer, lightest, config))


def _excess(layer: Layer, condition: Condition, config: SweepConfig) -> str | None:
    """Which limit one call goes beyond, in a sentence; None if it keeps them all."""
    kind, batch_size, limits = layer_kinds[layer.kind], condition.batch_size, config.limits
    costs = kind.costs(kind.values_of(layer), batch_size, config.element_bytes[condition.dtype])
    memory_bytes = costs.input_bytes + costs.output_bytes + costs.parameter_bytes
    if limits.flops is not None and costs.flops > limits.flops:
        return f"limits.flops: {costs.flops:.3g} at batch size {batch_size} is above {limits.flops:.3g}"
    if limits.memory_bytes is not None and memory_bytes > limits.memory_bytes:
        return f"limits.memory_bytes: {memory_bytes:.3g} at batch size {batch_size} is above {limits.memory_bytes:.3g}"
    return None


def listed_layers(config: SweepConfig) -> set[Layer]:
    """The layers that the config names itself, of all kinds."""
    return {each.layer for chosen in config.layers.values() for each in chosen.space.listed}


def _pairs(config: SweepConfig, drawing: Drawing, grid: Sequence[Condition]) -> Iterator[Pair]:
    listed = {each.layer: each.conditions for each in drawing.space.listed}
    for layer in drawing:
        own = listed.get(layer)
        # Of a listed layer all its conditions are wanted, not some.
        wanted = _conditions(config, layer, grid) if own is None else _condition_grid(config, own)
        fitting = (condition for condition in wanted if _fits(config, layer, condition))
        for condition in itertools.islice(fitting, config.conditions.per_layer if own is None else None):
            yield from ((layer, scheduled) for scheduled in _scheduled(condition, config.programs.schedules))


def _scheduled(condition: Condition, schedules: int) -> Iterator[Condition]:
    """A condition with each of the schedules that are drawn; as it is where none are asked for."""
    if not schedules:
        yield condition
    for number in range(1, schedules + 1):
        yield Condition(**{**condition.values, "schedule": number})


def _fits(config: SweepConfig, layer: Layer, condition: Condition) -> bool:
    return _excess(layer, condition, config) is None


def _conditions(config: SweepConfig, layer: Layer, grid: Sequence[Condition]) -> Iterator[Condition]:
    """The conditions of one layer in the order they are wanted, each once."""
    if config.conditions.per_layer is None:
        yield from grid
        return
    random = seeded(config.seed, layer.key)
    domains = _domains(config)
    seen: set[Condition] = set()
    # Drawn ones first, because domains have weights; then the grid, so that a tight limit still finds what fits.
    drawn = (
        _condition({name: domain.at(random.random()) for name, domain in domains.items()}, config)
        for _ in range(CONDITION_DRAWS)
    )
    for condition in itertools.chain(drawn, grid):
        if condition not in seen:
            seen.add(condition)
            yield condition


def _take(streams: Mapping[str, Iterator[Pair]], shares: Mapping[str, float], total: int) -> dict[str, list[Pair]]:
    """As many pairs of each kind as its share allows; what an exhausted kind leaves goes to the others."""
    taken: dict[str, list[Pair]] = {kind: [] for kind in streams}
    unfinished = list(streams)
    left = total
    while left > 0 and unfinished:
        for kind, quota in _split(left, {kind: shares[kind] for kind in unfinished}).items():
            got = list(itertools.islice(streams[kind], quota))
            taken[kind] += got
            left -= len(got)
            if len(got) < quota:
                unfinished.remove(kind)
    return taken


def _split(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """A total in whole parts by shares; the rounding goes where it errs least.

    >>> _split(10, {"conv2d": 2, "linear": 1})
    {'conv2d': 7, 'linear': 3}
    """
    exact = {kind: total * share / sum(shares.values()) for kind, share in shares.items()}
    parts = {kind: math.floor(part) for kind, part in exact.items()}
    by_remainder = sorted(shares, key=lambda kind: parts[kind] - exact[kind])
    for kind in by_remainder[: total - sum(parts.values())]:
        parts[kind] += 1
    return parts


def _take_all(streams: Mapping[str, Iterator[Pair]], most: int) -> dict[str, list[Pair]]:
    taken = {kind: list(itertools.islice(stream, most + 1)) for kind, stream in streams.items()}
    if sum(map(len, taken.values())) > most:
        raise UsageError(f"budget.points: missing, and the grid holds more than {MOST_POINTS} points")
    return taken
