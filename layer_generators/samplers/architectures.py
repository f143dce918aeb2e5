"""Layers as real networks have them, then the same layers with their sizes changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from medn.core.errors import UsageError
from medn.core.values import Layer, Scalar
from medn.layer_generators.architectures import architecture_layers
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.space import Space, targets

SMALLEST_SIZE = 8
"""Whole numbers from here on are sizes (channels, lengths, heights); below they are kernels, strides and counts."""
LARGEST_FACTOR = 2.0
ALIGNED_SHARE = 0.75
"""How many sizes that were multiples of 8 stay one; the others show what an odd size costs."""


@samplers.register
class ArchitecturesSampler(Sampler):
    name = "architectures"
    description = "layers of well-known networks, then the same with their sizes scaled"

    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        layers = architecture_layers(space.kind.name)
        if not layers:
            raise UsageError(
                f"layers.{space.kind.name}: no known network has such a layer; the sampler 'random' needs none"
            )
        for position in random.permutation(len(layers)):
            yield _held(dict(layers[position].values), space, random)
        while True:
            scaled = _scaled(layers[random.integers(len(layers))], random)
            yield _held(scaled, space, random)


def _scaled(layer: Layer, random: np.random.Generator) -> dict[str, Scalar]:
    """The layer with other sizes; equal sizes stay equal, so squares stay square and depthwise stays depthwise."""
    sizes = {value for value in layer.values.values() if _is_size(value)}
    changed: dict[int, int] = {}
    for size in sorted(sizes):
        unit = 8 if size % 8 == 0 and random.random() < ALIGNED_SHARE else 1
        factor = LARGEST_FACTOR ** random.uniform(-1, 1) if random.random() < 0.5 else 1.0
        changed[size] = max(1, round(size * factor / unit)) * unit
    return {name: changed[value] if _is_size(value) else value for name, value in layer.values.items()}


def _held(values: dict[str, Scalar], space: Space, random: np.random.Generator) -> dict[str, Scalar]:
    """The values moved into the domains that the config names; what it leaves open stays as the network has it."""
    held = dict(values)
    for name, domain in space.named.items():
        # Half of what lies outside is drawn anew; moved to the nearest value, all of it would gather at the ends.
        drawn, anew = domain.at(random.random()), random.random() < 0.5
        for target in targets(space.kind, name):
            nearest = domain.nearest(held[target]) if target in held else None
            if nearest is None or nearest != held[target]:
                held[target] = drawn if anew or nearest is None else nearest
    moved = {values[name]: held[name] for name in values if held[name] != values[name] and _is_size(values[name])}
    free = values.keys() - {target for name in space.named for target in targets(space.kind, name)}
    # Sizes that were equal stay equal: fewer channels of a depthwise convolution are as many fewer groups.
    return held | {name: moved[values[name]] for name in free if _is_size(values[name]) and values[name] in moved}


def _is_size(value: Scalar) -> TypeGuard[int]:
    return type(value) is int and value >= SMALLEST_SIZE
