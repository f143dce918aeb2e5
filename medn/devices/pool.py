"""The numbers that layers and their inputs are filled with, drawn from a seed without torch.

A device that is reached from elsewhere draws them itself, so that weights need not be sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

POOL_SIZE = 1_048_573
"""A prime, so that the rows of a large weight do not repeat in step with the pool."""
POOL_SEED = 20_240_229
SMALLEST, LARGEST = np.float32(0.1), np.float32(1.0)
UNIFORM_BITS = 24
"""As many as the fraction of a float32 holds."""


@lru_cache(maxsize=1)
def pool() -> NDArray[np.float32]:
    """Numbers from 0.1 to 1 of either sign: far from denormals, which would slow a kernel down.

    They are those that `uniform_` and `randint` of torch draw from the same seed.
    """
    drawn = _drawn(POOL_SEED, 2 * POOL_SIZE)
    share = (drawn[:POOL_SIZE] & ((1 << UNIFORM_BITS) - 1)) / 2.0**UNIFORM_BITS
    size = (share * np.float64(LARGEST - SMALLEST) + np.float64(SMALLEST)).astype(np.float32)
    sign = (drawn[POOL_SIZE:] % 2).astype(np.float32) * 2 - 1
    return size * sign


def indices(seed: int, below: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Random indices for an input such as that of an embedding.

    >>> indices(3, 10, (2, 2)).tolist()
    [[6, 8], [7, 7]]
    """
    return (_drawn(seed, math.prod(shape)) % below).astype(np.int64).reshape(shape)


def _drawn(seed: int, count: int) -> NDArray[np.uint32]:
    return np.random.RandomState(seed).randint(0, 1 << 32, size=count, dtype=np.uint32)


@dataclass(frozen=True)
class Fill:
    """A tensor filled from the pool: the place of its first number, what each is multiplied with, and its shape."""

    position: int
    scale: float
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def array(self) -> NDArray[np.float32]:
        """The tensor itself.

        >>> Fill(5, 2.0, (2, 1)).array().tolist() == (2 * pool()[5:7]).reshape(2, 1).tolist()
        True
        """
        flat, filled, position = np.empty(self.count, dtype=np.float32), 0, self.position
        while filled < self.count:
            run = pool()[position : position + self.count - filled]
            np.multiply(run, np.float32(self.scale), out=flat[filled : filled + len(run)])
            filled, position = filled + len(run), 0
        return flat.reshape(self.shape)
