"""Layers as real networks have them, then the same layers with their sizes changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medn.core.errors import UsageError
from medn.core.values import Scalar
from medn.layer_generators.architectures import architecture_layers
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.scaling import is_size, scaled_sizes, size_names
from medn.layer_generators.space import Space, targets

LARGEST_FACTOR = 2.0


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
            drawn = layers[random.integers(len(layers))].values
            scaled = scaled_sizes(drawn, size_names(drawn), LARGEST_FACTOR, random)
            yield _held(scaled, space, random)


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
    moved = {values[name]: held[name] for name in values if held[name] != values[name] and is_size(values[name])}
    free = values.keys() - {target for name in space.named for target in targets(space.kind, name)}
    # Sizes that were equal stay equal: fewer channels of a depthwise convolution are as many fewer groups.
    return held | {name: moved[values[name]] for name in free if is_size(values[name]) and values[name] in moved}
