"""Every combination of the domains' grid values, in an order that reaches all parts of the space early."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from medn.core.values import Scalar
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.space import Space

GOLDEN = (math.sqrt(5) - 1) / 2


@samplers.register
class GridSampler(Sampler):
    name = "grid"
    description = "every combination of the domains' values, in a spread order"
    ends = True
    patience = 100_000

    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        names = list(space.domains)
        grids = [domain.grid() for domain in space.domains.values()]
        for grid in grids:
            random.shuffle(grid)
        size = math.prod(len(grid) for grid in grids)
        # Steps of about the golden ratio visit every index once and spread at every length, without a list of them all.
        step = next(step for step in range(max(1, int(size * GOLDEN)), 2 * size + 1) if math.gcd(step, size) == 1)
        index = int(random.random() * size)
        for _ in range(size):
            yield dict(zip(names, _digits(index, grids), strict=True))
            index = (index + step) % size


def _digits(index: int, grids: list[list[Scalar]]) -> Iterator[Scalar]:
    """The combination at an index of the product, as a number with one digit per grid."""
    for grid in grids:
        index, digit = divmod(index, len(grid))
        yield grid[digit]
