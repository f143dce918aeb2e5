"""Every parameter by itself, at random from its domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medn.core.values import Scalar
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.space import Space


@samplers.register
class RandomSampler(Sampler):
    name = "random"
    description = "independent random draws from every domain"

    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        while True:
            yield {name: domain.at(random.random()) for name, domain in space.domains.items()}
