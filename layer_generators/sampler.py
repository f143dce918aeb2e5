"""What a sampler is, and how its candidates become layers: possible ones only, each once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from medn.core.errors import UsageError
from medn.core.registry import Registry
from medn.core.values import Layer, Scalar, content_key
from medn.layer_generators.space import Space


class Sampler(ABC):
    """Decides which layers of a space are drawn. One subclass in one file, with `@samplers.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    ends: ClassVar[bool] = False
    """True for a sampler that stops by itself when it has drawn everything there is."""
    patience: ClassVar[int] = 5000
    """So many candidates in a row without a new layer mean that there are no more."""

    @abstractmethod
    def draw(self, space: Space, random: np.random.Generator) -> Iterator[dict[str, Scalar]]:
        """Candidates in the order they are wanted, by the kind's names; impossible or repeated ones do no harm.

        A longer draw begins like a shorter one with the same generator, so that a larger budget keeps what is there.
        """


samplers: Registry[Sampler] = Registry("sampler", package="medn.layer_generators.samplers")


def seeded(*parts: Scalar) -> np.random.Generator:
    """A generator of its own for everything that is drawn: what one draws never changes another."""
    return np.random.default_rng(int(content_key(list(parts)), 16))


class Drawing:
    """The possible layers among a sampler's candidates, each once, and a count of why the others were turned away.

    `refuse` says why a possible layer is not wanted, or None; limits on work and memory come in through it.
    """

    def __init__(
        self,
        sampler: Sampler,
        space: Space,
        random: np.random.Generator,
        refuse: Callable[[Layer], str | None] = lambda layer: None,
    ) -> None:
        self.space = space
        self._sampler = sampler
        self._random = random
        self._refuse = refuse
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def __iter__(self) -> Iterator[Layer]:
        seen: set[str] = set()
        fruitless = 0
        for candidate in self._sampler.draw(self.space, self._random):
            layer, reason = self.space.layer(candidate)
            if layer is not None:
                reason = self._refuse(layer) or ""
            if reason:
                self._count(reason)
            elif layer is not None and layer.key not in seen:
                seen.add(layer.key)
                fruitless = 0
                yield layer
                continue
            fruitless += 1
            if fruitless >= self._sampler.patience:
                break
        if not seen:
            raise UsageError(f"layers.{self.space.kind.name}: nothing can be drawn from it.{self._most_often()}")

    def _count(self, reason: str) -> None:
        # Sentences that differ only in their numbers are one reason.
        pattern = re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", reason)
        self._counts[pattern] += 1
        self._examples.setdefault(pattern, reason)

    def _most_often(self) -> str:
        for pattern, count in self._counts.most_common(1):
            return f" {count} of {self._counts.total()} candidates failed because: {self._examples[pattern]}"
        return ""

    @property
    def rejected(self) -> dict[str, int]:
        """Why candidates were turned away (an example for each reason), and how many were."""
        return {self._examples[pattern]: count for pattern, count in self._counts.most_common()}
