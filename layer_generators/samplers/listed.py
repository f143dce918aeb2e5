"""The layers that a config lists, then their neighbours: the same layers with sizes scaled by small factors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from medn.core.domains import LogRange
from medn.core.values import Scalar
from medn.layer_generators.kind import LayerKind
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.scaling import scaled_sizes, size_names
from medn.layer_generators.space import Space, targets

SMALL_FACTOR, LARGEST_FACTOR = 1.5, 8.0
DRAWS_TO_DOUBLE = 1000
"""Sizes are scaled by small factors first; where near layers are used up, and domains allow it, by larger ones."""


@samplers.register
class ListedSampler(Sampler):
    name = "listed"
    description = "the layers that the config lists, then the same with their sizes scaled a little"

    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        if not space.listed:  # a kind that somebody adds to such a config is drawn all the same
            yield from samplers["random"].draw(space, random)
            return
        listed = [space.kind.complete(each.layer.values) for each in space.listed]
        yield from listed
        for count in itertools.count():
            values = listed[random.integers(len(listed))]
            factor = min(SMALL_FACTOR * 2 ** (count // DRAWS_TO_DOUBLE), LARGEST_FACTOR)
            neighbour = scaled_sizes(values, sizes_of(space.kind, values), factor, random)
            yield _held(neighbour, space, random)


def sizes_of(kind: LayerKind, values: Mapping[str, Scalar]) -> set[str]:
    """The parameters to scale. In a tiny layer, where no number is large enough to be a size for certain, those that
    the kind itself draws from wide ranges."""
    wide = (name for name, domain in kind.sweep.items() if isinstance(domain, LogRange))
    return size_names(values) or {target for name in wide for target in targets(kind, name) if target in values}


def _held(values: dict[str, Scalar], space: Space, random: np.random.Generator) -> dict[str, Scalar]:
    """The values moved into the domains that the config names."""
    held = dict(values)
    for name, domain in space.named.items():
        for target in targets(space.kind, name):
            nearest = domain.nearest(values[target]) if target in values else domain.at(random.random())
            held[target] = values[target] if nearest is None else nearest
    return held
