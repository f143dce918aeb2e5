"""Quasi-random draws: a scrambled Sobol sequence covers the space more evenly than chance does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medn.core.values import Scalar
from medn.layer_generators.sampler import Sampler, samplers
from medn.layer_generators.space import Space

BLOCK = 256
"""Drawn at a time; a power of two keeps the sequence balanced."""


@samplers.register
class SobolSampler(Sampler):
    name = "sobol"
    description = "quasi-random draws (scrambled Sobol sequence) that cover the space evenly"

    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        from scipy.stats import qmc

        sequence = qmc.Sobol(d=max(1, len(space.domains)), scramble=True, rng=random)
        while True:
            for fractions in sequence.random(BLOCK).tolist():
                yield {
                    name: domain.at(fraction)
                    for (name, domain), fraction in zip(space.domains.items(), fractions, strict=False)
                }
