"""Random layers of a kind, drawn from its own default sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from medn.core.errors import ConfigError
from medn.core.values import Layer
from medn.layer_generators.kind import LayerKind, Values

DrawLayers = Callable[..., list[Layer]]


def _draws(kind: LayerKind, seed: int) -> Iterator[Layer | None]:
    random = Random(f"{kind.name} {seed}")
    while True:
        given = {name: domain.at(random.random()) for name, domain in kind.sweep.items()}
        try:
            yield kind.layer(**given)
        except ConfigError:
            yield None


@pytest.fixture(scope="session")
def draw() -> Callable[[LayerKind, int], list[Layer | None]]:
    """So many draws of a kind's sweep; None for each that its rules refuse."""
    return lambda kind, count: [layer for _, layer in zip(range(count), _draws(kind, seed=0), strict=False)]


@pytest.fixture(scope="session")
def as_columns() -> Callable[[LayerKind, list[Layer]], Values]:
    """Layers of one kind as the columns that its formulas take."""

    def columns(kind: LayerKind, layers: list[Layer]) -> Values:
        told = [vars(kind.values_of(layer)) for layer in layers]
        return SimpleNamespace(**{each.name: np.array([own[each.name] for own in told]) for each in kind.parameters})

    return columns


@pytest.fixture(scope="session")
def small_layers() -> DrawLayers:
    """So many valid layers of a kind that run in a moment."""

    def small(kind: LayerKind, count: int, most_flops: float = 2e7, most_bytes: float = 4e6) -> list[Layer]:
        found: list[Layer] = []
        for layer in _draws(kind, seed=1):
            if layer is None:
                continue
            costs = kind.costs(kind.values_of(layer), batch_size=1, element_bytes=4)
            moved = costs.input_bytes + costs.output_bytes + costs.parameter_bytes
            if costs.flops <= most_flops and moved <= most_bytes:
                found.append(layer)
            if len(found) == count:
                return found
        raise AssertionError("unreachable: a sweep never ends")

    return small
